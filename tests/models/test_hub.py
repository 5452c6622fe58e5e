"""Hub ids against a hub of our own: what comes, what is refused and why, and what stays offline."""

from __future__ import annotations

import shutil
import socket
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import psutil
import pytest
from huggingface_hub import HfApi, errors

from playground.models import ModelError, load_model, model_state
from playground.words import entries, in_words, speaking
from tests.models.fake_hub import fake_hub
from tests.tiny import save_tiny, tiny_llama

NOWHERE = "http://127.0.0.1:9"


def told(error: ValueError, language: str) -> str:
    """Return what a reader of that language is shown."""
    token = speaking.set(language)
    try:
        return in_words(error)
    finally:
        speaking.reset(token)


def one_line(name: str, **options: str) -> str:
    with pytest.raises(ModelError) as caught:
        load_model(name, "cpu", **options)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_a_hub_model_comes_once_and_then_needs_no_network(
    online: Callable[..., None], llama_folder: Path, cut_network: Callable[[], list[str]]
) -> None:
    seen: list[tuple[float | None, str]] = []
    with fake_hub({"tiny/llama": llama_folder}) as hub:
        online(hub.endpoint)
        assert model_state("tiny/llama") == "to fetch"
        first = load_model("tiny/llama", "cpu", progress=lambda f, t: seen.append((f, t)))
    assert first.name == "tiny/llama"
    assert any(text.startswith("downloading tiny/llama") for _, text in seen)
    assert hub.brought("model.safetensors")

    # Without the offline flag too: a model that is here isn't asked for again.
    attempts = cut_network()
    assert model_state("tiny/llama", reachable=False) == "here"
    again = load_model("tiny/llama", "cpu")
    online(NOWHERE, offline=True)
    offline = load_model("tiny/llama", "cpu")
    assert attempts == []
    expected = load_model(str(llama_folder), "cpu").logits([3, 4, 5])
    for lm in (first, again, offline):
        np.testing.assert_array_equal(lm.logits([3, 4, 5]), expected)
    assert first.fingerprint == again.fingerprint == offline.fingerprint


def test_offline_and_not_here_is_said_at_once_without_a_connection(
    online: Callable[..., None], cut_network: Callable[[], list[str]]
) -> None:
    online(NOWHERE, offline=True)
    attempts = cut_network()
    start = time.monotonic()
    message = one_line("tiny/llama")
    assert "isn't in the cache" in message and "offline" in message
    assert model_state("tiny/llama") == "not reachable"
    assert time.monotonic() - start < 1
    assert attempts == []


def test_gated_missing_and_unreachable_are_three_messages_and_the_loaded_model_works(
    online: Callable[..., None], llama_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = load_model(str(llama_folder), "cpu")
    before = loaded.logits([3, 4, 5])
    with fake_hub({"closed/llama": llama_folder}, gated=("closed/llama",)) as hub:
        online(hub.endpoint)
        gated, missing = one_line("closed/llama"), one_line("no/such-model")
        monkeypatch.setenv("HF_TOKEN", "hf_of_somebody")
        with_token = one_line("no/such-model")
        monkeypatch.setenv("HF_TOKEN", "hf_bad")
        bad_token = one_line("no/such-model")
    online(NOWHERE)
    unreachable = one_line("tiny/llama")
    assert "is gated" in gated and "HF_TOKEN" in gated
    assert "has no model no/such-model" in missing and "set HF_TOKEN" in missing
    assert "HF_TOKEN may not read it" in with_token
    assert "doesn't accept the token" in bad_token
    assert "can't be reached" in unreachable and "tiny/llama" in unreachable
    loaded.clear()
    np.testing.assert_array_equal(loaded.logits([3, 4, 5]), before)


@pytest.mark.parametrize(
    "error",
    [
        errors.HTTPError("[Errno -2] Name or service not known"),
        errors.LocalEntryNotFoundError("raw words"),
        ConnectionResetError("raw words"),
        TimeoutError("raw words"),
        socket.gaierror(-2, "Name or service not known"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_hub_out_of_reach_is_told_in_the_reader_s_language_without_the_raw_error(
    online: Callable[..., None], monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise error

    online(NOWHERE)
    monkeypatch.setattr(HfApi, "model_info", refuse)
    with pytest.raises(ModelError) as caught:
        load_model("someone/else", "cpu")
    english, chinese = (told(caught.value, language) for language in ("en", "zh"))
    assert english == (
        "the hub can't be reached from this server, so someone/else can't be fetched; choose a "
        "model that is here already, or name a folder"
    )
    assert chinese == entries()["refusals.hub_unreachable"]["zh"].format(name="someone/else")
    assert caught.value.__cause__ is error


def test_every_refusal_of_the_hub_is_told_in_chinese(
    online: Callable[..., None], llama_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusals = {}

    def ask(key: str, name: str) -> None:
        with pytest.raises(ModelError) as caught:
            load_model(name, "cpu")
        refusals[key] = caught.value

    with fake_hub({"closed/llama": llama_folder}, gated=("closed/llama",)) as hub:
        online(hub.endpoint)
        ask("hub_gated", "closed/llama")
        ask("hub_missing", "no/such-model")
        answer = SimpleNamespace(status_code=503, headers={}, request=None)

        def fail(*_: object, **__: object) -> None:
            raise errors.HfHubHTTPError("raw words", response=answer)

        monkeypatch.setattr(HfApi, "model_info", fail)
        ask("hub_answers", "no/such-model")
    online(NOWHERE, offline=True)
    ask("hub_offline", "no/such-model")
    for key, refusal in refusals.items():
        start = entries()[f"refusals.{key}"]["zh"].partition("{name}")[0]
        assert told(refusal, "zh").startswith(start) and told(refusal, "zh") != str(refusal)
    assert "503" in told(refusals["hub_answers"], "zh")


def test_the_token_is_sent(
    online: Callable[..., None], llama_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_of_somebody")
    with fake_hub({"tiny/llama": llama_folder}) as hub:
        online(hub.endpoint)
        load_model("tiny/llama", "cpu")
    assert hub.tokens == {"Bearer hf_of_somebody"}


@pytest.mark.parametrize(
    ("lie", "reason"),
    [
        ({"architectures": ["T5ForConditionalGeneration"], "model_type": "t5"}, "not a causal"),
        ({"model_type": "own", "auto_map": {"AutoModelForCausalLM": "m.M"}}, "code of its own"),
    ],
)
def test_a_refused_hub_model_is_refused_before_its_weights_come(
    online: Callable[..., None], tmp_path: Path, lie: dict[str, object], reason: str
) -> None:
    folder = save_tiny(tmp_path / "liar", **lie)
    with fake_hub({"a/liar": folder}) as hub:
        online(hub.endpoint)
        assert reason in one_line("a/liar")
    assert hub.brought("config.json")
    assert not hub.brought("model.safetensors")


def test_pickled_weights_are_refused_before_they_come(
    online: Callable[..., None], llama_folder: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(llama_folder, tmp_path / "pickled"))
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with fake_hub({"a/pickle": folder}) as hub:
        online(hub.endpoint)
        message = one_line("a/pickle")
    assert "pytorch_model.bin" in message and "safetensors" in message
    assert not hub.brought("pytorch_model.bin")


def test_too_big_for_the_memory_is_said_before_the_download(
    online: Callable[..., None], llama_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=50_000))
    with fake_hub({"tiny/llama": llama_folder}) as hub:
        online(hub.endpoint)
        message = one_line("tiny/llama")
    assert "too big" in message and "0.05 MB are free" in message
    assert not hub.brought("model.safetensors")


@pytest.mark.parametrize("lost", ["model-00002*", "generation_config.json", "tokenizer.json"])
def test_a_cut_download_is_taken_up_again(
    online: Callable[..., None], hub_cache: Path, tmp_path: Path, lost: str
) -> None:
    model = tiny_llama()
    folder = tmp_path / "two-parts"
    save_tiny(folder, model)
    model.save_pretrained(folder, max_shard_size="60KB")
    (folder / "model.safetensors").unlink()
    with fake_hub({"tiny/parts": folder}) as hub:
        online(hub.endpoint)
        expected = load_model("tiny/parts", "cpu").logits([3, 4, 5])
        # As a killed download leaves it: most is there, one file is missing.
        part = next((hub_cache / "models--tiny--parts").glob(f"snapshots/*/{lost}"))
        part.resolve().unlink()
        part.unlink()
        assert model_state("tiny/parts") == "to fetch"
        again = load_model("tiny/parts", "cpu")
    np.testing.assert_array_equal(again.logits([3, 4, 5]), expected)


@pytest.mark.parametrize(
    "name", ["", "  ", "no//such", "/no/such/folder", "a b", "../up", "x" * 200]
)
def test_what_is_no_name_asks_nobody(name: str, cut_network: Callable[[], list[str]]) -> None:
    attempts = cut_network()
    one_line(name)
    assert attempts == []
