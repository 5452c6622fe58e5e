"""What all tests share: no network, few threads, the default model loaded once, automatic marks."""

from __future__ import annotations

import os

# Before anything imports them: no hub is asked, no library phones home, no thread pools fight.
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("OMP_NUM_THREADS", "2")
# Servers of test processes that run side by side must not reach for the same port. (Set anew: a
# worker inherits what the process that started it has set here.)
os.environ["GRADIO_SERVER_PORT"] = str(
    7860 + 200 * int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
)

import shutil
from typing import Any

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what uses the default model or the browser, and skip GPU tests where there is none."""
    for item in items:
        fixtures = getattr(item, "fixturenames", ())
        if "default_lm" in fixtures:
            item.add_marker("model")
        if "browser_path" in fixtures:
            item.add_marker("browser")
        if item.get_closest_marker("gpu") and not _cuda():
            item.add_marker(pytest.mark.skip(reason="torch sees no CUDA device"))


@pytest.fixture(scope="session")
def default_lm() -> Any:
    """Return the default model, loaded once; fetched into the cache when it isn't there."""
    from playground.models import load_model

    return load_model("default", device="cpu")


@pytest.fixture(scope="session")
def browser_path() -> str:
    """Return a Chromium's path: PLAYGROUND_CHROMIUM or the system's, else skip."""
    given = os.environ.get("PLAYGROUND_CHROMIUM")
    names = ("chromium", "chromium-browser", "google-chrome")
    found = given or next(filter(None, map(shutil.which, names)), None)
    if not found:
        pytest.skip("no Chromium: set PLAYGROUND_CHROMIUM or run `make browser`")
    return found


def _cuda() -> bool:
    import torch

    return torch.cuda.is_available()
