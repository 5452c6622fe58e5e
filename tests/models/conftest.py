"""Fixtures for models: folders made once, a network that can be cut, a hub of our own."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import huggingface_hub.constants
import pytest

from tests.tiny import save_tiny, tiny_gpt2, tiny_llama


@pytest.fixture(scope="session")
def llama_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny Llama, saved. Read only: copy it before you change it."""
    return save_tiny(tmp_path_factory.mktemp("models") / "tiny-llama", tiny_llama())


@pytest.fixture(scope="session")
def gpt2_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny GPT-2, saved. Read only: copy it before you change it."""
    return save_tiny(tmp_path_factory.mktemp("models") / "tiny-gpt2", tiny_gpt2())


@pytest.fixture
def cut_network(monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """A function that cuts the network; the list that it returns gets every attempt."""

    def cut() -> list[str]:
        attempts: list[str] = []

        def refuse(*args: Any, **_: Any) -> Any:
            attempts.append(str(args))
            raise OSError("the test has no network")

        monkeypatch.setattr(socket, "getaddrinfo", refuse)
        monkeypatch.setattr(socket, "create_connection", refuse)
        monkeypatch.setattr(socket.socket, "connect", refuse)
        monkeypatch.setattr(socket.socket, "connect_ex", refuse)
        return attempts

    return cut


@pytest.fixture
def hub_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty hub cache, and no token."""
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(huggingface_hub.constants, "HF_TOKEN_PATH", str(tmp_path / "token"))
    monkeypatch.delenv("HF_TOKEN", raising=False)
    return tmp_path / "hub"


@pytest.fixture
def online(monkeypatch: pytest.MonkeyPatch, hub_cache: Path) -> Callable[..., None]:
    """A function that points the hub at an address and takes back (or sets) the offline flag."""

    def point(endpoint: str, offline: bool = False) -> None:
        monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", offline)
        monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", endpoint)
        monkeypatch.setattr(
            huggingface_hub.constants,
            "HUGGINGFACE_CO_URL_TEMPLATE",
            endpoint + "/{repo_id}/resolve/{revision}/{filename}",
        )

    return point
