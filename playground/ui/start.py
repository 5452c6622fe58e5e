"""Start the page: find a port, load the default model in the background, serve.

Settings (environment, or flags of ``python app.py --help``): PLAYGROUND_HOST, PLAYGROUND_PORT,
PLAYGROUND_ANY_MODEL (1: visitors may load any hub id or folder; default 1 at home, 0 on a Space).
"""

from __future__ import annotations

import argparse
import os
import socket
from typing import Any

import gradio as gr

from playground.models import load_model
from playground.tape_file import MAX_FILE
from playground.ui.components import launch_options
from playground.ui.demo import build_demo
from playground.ui.library import Library
from playground.words import ASSETS

FIRST_PORT = 7860


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


def serve_options(host: str, port: int) -> dict[str, Any]:
    """Return the options of ``launch()``: private, bounded, no calls home."""
    return {
        "server_name": host,
        "server_port": port,
        "show_error": False,
        "footer_links": ["settings"],
        "run_history": False,
        "enable_monitoring": False,
        "max_file_size": MAX_FILE,
        "ssr_mode": False,
        "pwa": False,
        "state_session_capacity": 1000,
        "favicon_path": str(ASSETS / "favicon.svg"),
        **launch_options(),
    }


def build(library: Library, allow_any: bool) -> gr.Blocks:
    """Return the page with its queue set up for a class on one machine."""
    demo = build_demo(library, allow_any)
    return demo.queue(default_concurrency_limit=8, max_size=64, api_open=False)


def main() -> None:
    """Serve until interrupted."""
    on_space = bool(os.environ.get("SPACE_ID"))
    parser = argparse.ArgumentParser(description="Decoding Playground")
    host = os.environ.get("PLAYGROUND_HOST", "0.0.0.0" if on_space else "127.0.0.1")
    parser.add_argument("--host", default=host)
    port = os.environ.get("PLAYGROUND_PORT") or os.environ.get("GRADIO_SERVER_PORT")
    parser.add_argument("--port", type=int, default=int(port) if port else None)
    options = parser.parse_args()
    any_model = os.environ.get("PLAYGROUND_ANY_MODEL", "0" if on_space else "1") == "1"
    port = options.port or free_port(options.host)
    if options.port is None and port != FIRST_PORT:
        print(f"Port {FIRST_PORT} is taken, so this one runs on {port}.")
    library = Library(load_model)
    library.preload()
    print(f"Decoding Playground: http://{options.host}:{port}  (Ctrl + C stops it)", flush=True)
    build(library, any_model).launch(quiet=True, **serve_options(options.host, port))
