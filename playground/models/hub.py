"""Hub ids: found in the hub's cache without any network, else asked for, checked and downloaded.

A complete snapshot in the cache is used as it is: no look for updates, so nothing waits when the
network is down. The offline flag (HF_HUB_OFFLINE or TRANSFORMERS_OFFLINE) means that no connection
is tried. HF_TOKEN, or a saved login, opens gated and private models.

For a model that isn't cached: 1. ask for its list of files; 2. bring config.json and refuse by it;
3. refuse pickled weights, too little memory, too little disk; 4. bring what is needed.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from huggingface_hub import HfApi, constants, errors, snapshot_download
from huggingface_hub.utils import tqdm, validate_repo_id

from playground.models import folder as folders
from playground.models.cache import check_room, plain_errors
from playground.models.errors import ModelError, Progress, first_line, in_words, silent

# Config, tokenizer and safetensors of the top folder; no other formats, no other frameworks.
WANTED = ("*.json", "*.safetensors", "*.jinja", "merges.txt", "vocab.txt", "*.model")
UNWANTED = ("*/*", "consolidated*", "*.fp16.*")
POLL_SECONDS = 0.5
# What says that nobody answered, beside the errors of the hub client's HTTP library.
OUT_OF_REACH = (
    errors.LocalEntryNotFoundError,
    ConnectionError,
    TimeoutError,
    socket.gaierror,
)

# fits(parameters): raises ModelError when a model of that size can't be loaded
Fits = Callable[[int], None]


class _NoBar(tqdm):
    """The hub client's bar, never drawn: progress goes to the callback alone."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **{**options, "disable": True})


def is_offline() -> bool:
    """Tell whether the offline flag is set."""
    return constants.is_offline_mode()


def is_repo_id(name: str) -> bool:
    """Tell whether a name could be a hub id: "model" or "owner/model"."""
    try:
        validate_repo_id(name)
    except errors.HFValidationError:
        return False
    return True


def reachable(seconds: float = 2.0) -> bool:
    """Tell whether the hub answers a connection; False at once with the offline flag."""
    if is_offline():
        return False
    place = urlsplit(constants.ENDPOINT)
    port = place.port or (80 if place.scheme == "http" else 443)
    try:
        with socket.create_connection((place.hostname, port), timeout=seconds):
            return True
    except OSError:
        return False


def cached_folder(repo_id: str) -> Path | None:
    """Return the complete snapshot of a model in the hub's cache, or None; no network."""
    try:
        # Knows the list of files where the download was ours, so a cut one isn't taken for whole.
        snapshot = Path(_download(repo_id, WANTED, UNWANTED, local_files_only=True))
        folders.weight_files(snapshot, repo_id)
        folders.check_tokenizer(snapshot, repo_id)
    except (OSError, ModelError):
        return None
    return snapshot if (snapshot / "config.json").is_file() else None


def bring(repo_id: str, fits: Fits, progress: Progress = silent) -> Path:
    """Return the folder of a hub model, downloaded where the cache hasn't got it.

    ``fits(parameters)`` raises ModelError when a model of that size can't be loaded; it is asked
    before the download. Raises ModelError for a model that is missing, gated, refused, or out of
    reach, each in words of its own.
    """
    if found := cached_folder(repo_id):
        return found
    if is_offline():
        raise ModelError(
            f"{repo_id} isn't in the cache and the offline flag is set: unset HF_HUB_OFFLINE to "
            "download it, or choose a model that is here"
        )
    progress(None, f"asking the hub for {repo_id}")
    with plain_errors(_store(repo_id)):
        info = _asked(repo_id, lambda: HfApi().model_info(repo_id, files_metadata=True, timeout=20))
        files = {f.rfilename: f.size or 0 for f in info.siblings or ()}
        _check_files(repo_id, files, fits)
        wanted = {n: size for n, size in files.items() if _is_wanted(n)}
        check_room(_store(repo_id), sum(wanted.values()))
        _watched(repo_id, sum(wanted.values()), progress)
    found = cached_folder(repo_id)
    if found is None:
        raise ModelError(f"{repo_id} came incomplete; try again")
    return found


def _check_files(repo_id: str, files: dict[str, int], fits: Fits) -> None:
    """Refuse by what the list of files and config.json say, before the weights come."""
    if "config.json" not in files:
        raise ModelError(f"{repo_id} has no config.json: not a model in the transformers layout")
    place = _asked(repo_id, lambda: _download(repo_id, ("*config.json",), ("*/*",)))
    config = folders.read_config(Path(place), repo_id)
    folders.check_config(config, repo_id)
    weights = [n for n in files if n.endswith(".safetensors") and _is_wanted(n)]
    if not weights:
        endings = tuple(pattern[1:] for pattern in folders.PICKLES)
        folders.refuse_pickles([n for n in files if n.endswith(endings)], repo_id)
        raise ModelError(f"{repo_id} has no safetensors weights")
    stored = str(config.get("dtype") or config.get("torch_dtype") or "float32")
    fits(sum(files[n] for n in weights) // (2 if "16" in stored else 4))


def _watched(repo_id: str, total: int, progress: Progress) -> None:
    """Download in a thread, and report the bytes that have come from this one."""
    outcome: list[BaseException] = []

    def work() -> None:
        try:
            _download(repo_id, WANTED, UNWANTED)
        except BaseException as error:
            outcome.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    text = f"downloading {repo_id} ({in_words(total)})"
    while thread.is_alive():
        progress(min(_bytes_in(_store(repo_id) / "blobs") / max(total, 1), 1.0), text)
        thread.join(POLL_SECONDS)

    def answer() -> None:
        if outcome:
            raise outcome[0]

    _asked(repo_id, answer)


def _download(
    repo_id: str, wanted: Sequence[str], unwanted: Sequence[str], local_files_only: bool = False
) -> str:
    return snapshot_download(
        repo_id,
        local_files_only=local_files_only,
        allow_patterns=list(wanted),
        ignore_patterns=list(unwanted),
        max_workers=4,
        tqdm_class=_NoBar,
    )


def _asked(repo_id: str, question: Callable[[], Any]) -> Any:
    """Return the hub's answer, with its errors in one line each."""
    try:
        return question()
    except errors.GatedRepoError as error:
        raise ModelError(
            f"{repo_id} is gated: accept its terms on its page on the hub, then set HF_TOKEN to a "
            "token of that account"
        ) from error
    except errors.RepositoryNotFoundError as error:
        raise ModelError(_missing(repo_id)) from error
    except errors.HfHubHTTPError as error:
        if error.response.status_code == 401:
            said = error.response.headers.get("X-Error-Message", "")
            bad = f"the hub doesn't accept the token in HF_TOKEN (asked for {repo_id})"
            raise ModelError(bad if "credentials" in said else _missing(repo_id)) from error
        raise ModelError(
            f"the hub answers {error.response.status_code} when asked for {repo_id}; try again "
            "later, or choose a model that is here"
        ) from error
    except (*OUT_OF_REACH, errors.HTTPError) as error:
        raise ModelError(
            f"the hub can't be reached from this server, so {repo_id} can't be fetched; choose a "
            "model that is here already, or name a folder"
        ) from error
    except OSError:
        raise
    except Exception as error:
        raise ModelError(f"{repo_id} can't be loaded: {first_line(error)}") from error


def _missing(repo_id: str) -> str:
    hint = "HF_TOKEN may not read it" if os.environ.get("HF_TOKEN") else "set HF_TOKEN"
    return f"the hub has no model {repo_id} (or it is private: {hint})"


def _is_wanted(name: str) -> bool:
    return any(fnmatch(name, p) for p in WANTED) and not any(fnmatch(name, p) for p in UNWANTED)


def _store(repo_id: str) -> Path:
    return Path(constants.HF_HUB_CACHE) / f"models--{repo_id.replace('/', '--')}"


def _bytes_in(folder: Path) -> int:
    total = 0
    for path in folder.glob("*"):
        try:
            total += path.stat().st_size
        except OSError:
            continue  # renamed between the two looks
    return total
