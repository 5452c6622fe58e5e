"""Fixtures that drive the page in headless Chromium, offline.

``serve(build)`` launches a demo once per session; ``open_page(url, ...)`` opens it in a fresh
browser context in which every request to another host is refused. At the end of a test, page
errors and refused requests fail it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

# A busy machine needs seconds where an idle one needs milliseconds.
TIMEOUT = float(os.environ.get("PLAYGROUND_BROWSER_TIMEOUT", "30")) * 1000
ARGS = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]


@pytest.fixture(scope="session")
def browser(browser_path: str) -> Iterator[Any]:
    """One Chromium for all tests."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=browser_path, args=ARGS)
        yield chromium
        chromium.close()


@pytest.fixture(scope="session")
def serve(browser: Any) -> Iterator[Callable[[Callable[[], tuple[Any, dict]]], str]]:
    """Return serve(build) -> address; ``build()`` returns a Blocks and its launch options."""
    running: dict[Any, tuple[Any, str]] = {}

    def start(build: Callable[[], tuple[Any, dict]]) -> str:
        if build not in running:
            demo, options = build()
            _, url, _ = demo.launch(
                server_name="127.0.0.1", prevent_thread_lock=True, quiet=True, **options
            )
            running[build] = demo, url.rstrip("/")
        return running[build][1]

    yield start
    for demo, _ in running.values():
        demo.close(verbose=False)


@pytest.fixture
def open_page(browser: Any) -> Iterator[Callable[..., Any]]:
    """Return open_page(url, size=(1280, 800), **context options) -> a Playwright page."""
    contexts, errors, refused = [], [], []

    def start(url: str, size: tuple[int, int] = (1280, 800), **options: Any) -> Any:
        context = browser.new_context(
            viewport={"width": size[0], "height": size[1]}, **({"locale": "en-US"} | options)
        )
        context.set_default_timeout(TIMEOUT)
        contexts.append(context)
        host = urlsplit(url).netloc

        def guard(route: Any) -> None:
            if urlsplit(route.request.url).netloc == host:
                route.continue_()
            else:
                refused.append(route.request.url)
                route.abort()

        context.route("http*://**/*", guard)
        page = context.new_page()
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(url)
        return page

    yield start
    for context in contexts:
        context.close()
    assert not errors
    assert not refused
