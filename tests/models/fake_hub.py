"""A hub on this machine, with the answers and error headers of the real one, and a log of requests.

It serves folders by repo id. ``gated`` ones list their files and refuse to hand them out; a repo
that isn't there answers as the hub does to a stranger.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

COMMIT = "c" * 40
BAD_TOKEN = "Invalid credentials in Authorization header"


@dataclass
class FakeHub:
    """The address to ask and the requests that came, such as "GET /api/models/tiny/llama"."""

    endpoint: str
    requests: list[str] = field(default_factory=list)
    tokens: set[str | None] = field(default_factory=set)

    def brought(self, name: str) -> bool:
        """Tell whether anybody fetched a file of that name."""
        return any(r.startswith("GET") and r.endswith("/" + name) for r in self.requests)


@contextmanager
def fake_hub(repos: Mapping[str, Path], gated: tuple[str, ...] = ()) -> Iterator[FakeHub]:
    """Serve ``repos`` (id -> folder) on a free port until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

        def do_HEAD(self) -> None:
            self.answer()

        def do_GET(self) -> None:
            self.answer()

        def answer(self) -> None:
            path = urlsplit(self.path).path
            hub.requests.append(f"{self.command} {path}")
            hub.tokens.add(self.headers["Authorization"])
            if path.startswith("/api/models/"):
                name = "/".join(path.split("/")[3:5])
                if name not in repos:
                    # What the hub says to a stranger, so that private names stay private.
                    wrong = self.headers["Authorization"] == "Bearer hf_bad"
                    said = {"X-Error-Message": BAD_TOKEN} if wrong else {}
                    return self.send(401, b"Invalid username or password.", said)
                return self.send_json(self.described(name, path))
            name, _, rest = path.lstrip("/").partition("/resolve/")
            if name not in repos:
                return self.send(404, b"", {})
            if name in gated:
                return self.send(
                    401, b"restricted", {"X-Error-Code": "GatedRepo", "X-Error-Message": "gated"}
                )
            file = repos[name] / rest.split("/", 1)[1]
            if not file.is_file():
                return self.send(404, b"", {"X-Error-Code": "EntryNotFound"})
            data = file.read_bytes()
            tag = f'"{hashlib.sha1(data).hexdigest()}"'
            return self.send(200, data, {"ETag": tag, "X-Repo-Commit": COMMIT})

        def described(self, name: str, path: str) -> object:
            files = sorted(p for p in repos[name].rglob("*") if p.is_file())
            names = {str(p.relative_to(repos[name])): p.stat().st_size for p in files}
            if "/tree/" in path:
                return [
                    {"type": "file", "path": n, "size": size, "oid": "0" * 40}
                    for n, size in names.items()
                ]
            siblings = [{"rfilename": n, "size": size} for n, size in names.items()]
            return {"id": name, "modelId": name, "sha": COMMIT, "siblings": siblings, "tags": []}

        def send_json(self, value: object) -> None:
            self.send(200, json.dumps(value).encode(), {"Content-Type": "application/json"})

        def send(self, status: int, data: bytes, headers: Mapping[str, str]) -> None:
            self.send_response(status)
            for key, value in headers.items():
                self.send_header(key, value)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(data)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    hub = FakeHub(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
