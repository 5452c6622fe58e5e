"""What a request for something that isn't there is told: a status and one line of JSON.

Gradio looks its endpoints up by name or number and lets what goes wrong fall through: a 500 and a
traceback in the log, for anybody who mistypes. ``HANDLERS`` and ``KnownEvents`` are given to its
server, and answer {"error": one line} instead; errors from anywhere else go on as they were.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from gradio.route_utils import FnIndexInferError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from playground.models.errors import first_line

LONGEST = 80  # characters of the request that are repeated
# Where Gradio looks a function or a component up, by its name or number, before our code runs.
LOOKS_UP = re.compile(
    r"/gradio_api/(?:(?:run|api|call(?:/v2)?)/[^/]+|queue/join|(component_server))/?"
)


async def no_such_name(request: Request, error: Exception) -> JSONResponse:
    """Answer a call of an endpoint that has no such name."""
    return _not_there("endpoint", request.path_params.get("api_name", ""))


async def no_such_key(request: Request, error: Exception) -> JSONResponse:
    """Answer where Gradio found no function, name or component. Raises any other KeyError again."""
    place = LOOKS_UP.fullmatch(request.url.path)
    if place is None:
        raise error
    key = error.args[0] if error.args else ""
    return _not_there("component" if place[1] else "endpoint", key)


async def wrong_values(request: Request, error: Exception) -> JSONResponse:
    """Answer a call by names whose names aren't the endpoint's. Raises other TypeErrors again."""
    if "/call/v2/" not in request.url.path:
        raise error
    return _answer(400, first_line(error).partition(". ")[0])


def _not_there(what: str, key: object) -> JSONResponse:
    key = key.strip("/")[:LONGEST] if isinstance(key, str) else key
    return _answer(404, f"there is no {what} {key!r}"[: 2 * LONGEST])


def _answer(status: int, line: str) -> JSONResponse:
    return JSONResponse({"error": line}, status)


HANDLERS: dict[type[Exception], Callable] = {
    FnIndexInferError: no_such_name,
    KeyError: no_such_key,
    TypeError: wrong_values,
}


class KnownEvents:
    """Middleware that ends the stream of an API call which isn't there without a traceback.

    Gradio says so in the stream, whose status has long been sent, and then raises a 404 all the
    same. The page's own stream is left alone: it takes the break for a reason to connect anew.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        try:
            await self.app(scope, receive, send)
        except RuntimeError as error:
            cause = error.__cause__
            told = isinstance(cause, HTTPException) and cause.status_code == 404
            if not told or not scope["path"].startswith("/gradio_api/call/"):
                raise
            await send({"type": "http.response.body", "body": b"", "more_body": False})
