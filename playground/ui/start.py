"""Start the page: find a port, load the default model in the background, serve.

Settings (environment, or flags of ``python app.py --help``): PLAYGROUND_HOST, PLAYGROUND_PORT, and
every limit of ``serving.limits``. Beside the page: the API (``serving.api``) and /health.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import socket
import sys
from dataclasses import fields
from typing import Any

import gradio as gr
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from playground.models import load_model
from playground.serving.api import add_api
from playground.serving.gpu import on_shared_gpu, shared_gpu
from playground.serving.host import Host
from playground.serving.limits import Limits, variable
from playground.serving.turns import PLAIN, QUICK, within
from playground.serving.unknown import HANDLERS, KnownEvents
from playground.tape_file import MAX_FILE
from playground.ui.components import launch_options
from playground.ui.demo import build_demo
from playground.ui.library import Library
from playground.words import ASSETS

FIRST_PORT = 7860
# Page events that use the model wait in threads of their own: as many as a class needs, with room
# for the quick ones (a settling slider), and a queue beyond which visitors are asked to come back.
THREADS = 96
QUEUE = 128
SWITCH = 0.0005


def free_port(host: str, first: int = FIRST_PORT, tries: int = 100) -> int:
    """Return the first port from ``first`` on that nobody listens on."""
    for port in range(first, first + tries):
        with socket.socket() as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                s.bind((host, port))
            except OSError:
                continue
            return port
    raise OSError(f"no free port in {first}..{first + tries - 1}")


def serve_options(host: str, port: int, routes: list[Route] | None = None) -> dict[str, Any]:
    """Return the options of ``launch()``: private, bounded, no calls home."""
    return {
        "server_name": host,
        "server_port": port,
        "show_error": False,
        "footer_links": ["api", "settings"],
        "run_history": False,
        "enable_monitoring": False,
        "max_file_size": MAX_FILE,
        "max_threads": THREADS,
        "ssr_mode": False,
        "pwa": False,
        "state_session_capacity": 1000,
        "favicon_path": str(ASSETS / "favicon.svg"),
        "app_kwargs": {
            "routes": routes or [],
            "exception_handlers": dict(HANDLERS),
            "middleware": [Middleware(KnownEvents)],
        },
        **launch_options(),
    }


def build(library: Library, host: Host) -> gr.Blocks:
    """Return the page and the API, with a queue for a class on one machine."""
    demo = build_demo(library, bool(host.limits.any_model))
    with demo:
        add_api(library.get, host.limits)

        def leave(request: gr.Request) -> None:
            host.leave(str(request.session_hash or ""))

        demo.unload(leave)
    demo.validate_inputs = enough
    for fn in demo.fns.values():
        if fn.fn is not None and fn.fn is not leave:
            turn = host.turns.wrap(fn.fn, PLAIN if fn.queue else QUICK)
            fn.fn = within(turn, host.working)
    return demo.queue(default_concurrency_limit=8, max_size=QUEUE, api_open=False)


def enough(fn: Any, inputs: list[Any]) -> None:
    """Refuse a request with too few values in a line; Gradio would log them all, word for word."""
    if len(inputs) < len(fn.inputs):
        text = f"{fn.api_name or 'event'} must have {len(fn.inputs)} values, got {len(inputs)}"
        raise gr.Error(text, print_exception=False)


def health_route(library: Library, host: Host) -> Route:
    """Return GET /health: JSON, 200 while the page serves, 503 when its model can't be had."""

    def health(_: Request) -> JSONResponse:
        found, status = host.health(library)
        return JSONResponse(found, status)

    return Route("/health", health)


def waiting_route(host: Host) -> Route:
    """Return GET /waiting?session=...: JSON, how far the visitor's request has come."""

    def waiting(request: Request) -> JSONResponse:
        return JSONResponse(host.waits(request.query_params.get("session", "")))

    return Route("/waiting", waiting)


def log_as_json(stream: Any = None) -> None:
    """Write the project's log as lines of JSON: when, how grave, what."""

    class Line(logging.Formatter):
        def format(self, record: logging.LogRecord) -> str:
            text = record.getMessage()
            body = json.loads(text) if text.startswith("{") else {"event": text}
            found = {"time": self.formatTime(record), "level": record.levelname.lower(), **body}
            if record.exc_info:
                found["error"] = self.formatException(record.exc_info)
            return json.dumps(found, ensure_ascii=False)

    handler = logging.StreamHandler(stream)
    handler.setFormatter(Line())
    logger = logging.getLogger("playground")
    logger.handlers, logger.propagate = [handler], False
    logger.setLevel(logging.INFO)


def read_options(arguments: list[str] | None = None) -> tuple[argparse.Namespace, Limits]:
    """Return the settings of the command line, which go before the environment's."""
    on_space = bool(os.environ.get("SPACE_ID"))
    parser = argparse.ArgumentParser(description="Decoding Playground")
    host = os.environ.get("PLAYGROUND_HOST", "0.0.0.0" if on_space else "127.0.0.1")
    parser.add_argument("--host", default=host)
    port = os.environ.get("PLAYGROUND_PORT") or os.environ.get("GRADIO_SERVER_PORT")
    parser.add_argument("--port", type=int, default=port or None)  # argparse reads a text's number
    environment = dict(os.environ)
    for field in fields(Limits):
        name = "--" + field.name.replace("_", "-")
        parser.add_argument(name, type=int, help=f"also ${variable(field.name)}; 0: no limit")
    options = parser.parse_args(arguments)
    for field in fields(Limits):
        value = getattr(options, field.name)
        if value is not None:
            environment[variable(field.name)] = str(value)
    try:
        return options, Limits.read(environment)
    except ValueError as error:
        parser.error(str(error))


def main() -> None:
    """Serve until interrupted."""
    options, limits = read_options()
    port = options.port or free_port(options.host)
    if options.port is None and port != FIRST_PORT:
        print(f"Port {FIRST_PORT} is taken, so this one runs on {port}.")
    log_as_json()
    # A forward takes the interpreter back hundreds of times; with charts being drawn in other
    # threads it would wait 5 ms each time.
    sys.setswitchinterval(SWITCH)
    gpu = None
    if on_shared_gpu():  # in float32, so that it gives the CPU's numbers
        gpu = shared_gpu(load_model("default", device="cuda", dtype="float32"))
    host = Host(load_model, limits, gpu)
    library = Library(host.load)
    demo = build(library, host)
    routes = [health_route(library, host), waiting_route(host)]
    serving = serve_options(options.host, port, routes)
    demo.launch(quiet=True, prevent_thread_lock=True, **serving)
    print(f"Decoding Playground: http://{options.host}:{port}  (Ctrl + C stops it)", flush=True)
    library.preload()  # only now: importing what models need would hold the page up
    demo.block_thread()
