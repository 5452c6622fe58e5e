"""Loading what may be loaded: folders, GGUF files, vocabularies, limits, fingerprints."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import GenerationConfig

import playground as pg
from playground.lm import TransformersLM
from playground.models import CATALOGUE, ModelError, load_model
from tests.models.tiny_gguf import write_gguf
from tests.tiny import (
    CONTEXT,
    FAMILIES,
    save_tiny,
    tiny_gpt2,
    tiny_llama,
    tiny_tokenizer,
)

IDS = [9, 6, 13, 13, 16]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_saved_model_comes_back_with_the_same_numbers(family: str, tmp_path: Path) -> None:
    model = FAMILIES[family]()
    lm = load_model(str(save_tiny(tmp_path / family, model)))
    with torch.inference_mode():
        expected = model(torch.tensor([IDS])).logits[0, -1].numpy()
    tolerance = 1e-4 if lm.device == "cpu" else 0.2
    np.testing.assert_allclose(lm.logits(IDS)[-1], expected, atol=tolerance)
    assert lm.name == family and lm.eos_ids == (1,) and lm.bos_id == 0
    assert lm.decode(lm.encode("hello world")) == "hello world"


def test_a_local_folder_needs_no_network(
    llama_folder: Path, cut_network: Callable[[], list[str]]
) -> None:
    attempts = cut_network()
    assert load_model(llama_folder, "cpu").logits(IDS).shape == (1, 96)
    assert attempts == []


def test_a_models_own_sampling_defaults_change_nothing(tmp_path: Path) -> None:
    model = tiny_llama()
    plain = load_model(str(save_tiny(tmp_path / "plain", model)), "cpu")
    model.generation_config = GenerationConfig(
        do_sample=True,
        temperature=0.6,
        top_k=20,
        top_p=0.5,
        repetition_penalty=1.3,
        eos_token_id=[1, 7, 9],
        bos_token_id=0,
        pad_token_id=1,
    )
    folder = save_tiny(tmp_path / "opinionated", model)
    assert json.loads((folder / "generation_config.json").read_text())["top_k"] == 20
    lm = load_model(str(folder), "cpu")

    off = pg.SamplingParams()
    (stage,) = pg.shape(lm.logits(IDS)[-1], off)
    assert np.isfinite(stage.logprobs).all()
    np.testing.assert_array_equal(stage.logprobs, pg.shape(plain.logits(IDS)[-1], off)[0].logprobs)
    assert pg.generate(lm, IDS, off, 8, False).ids == pg.generate(plain, IDS, off, 8, False).ids
    # Nor do they reach who asks the transformers model itself ...
    left = lm.model.generation_config
    assert not left.do_sample and left.temperature is None and left.top_k is None
    # ... while all of its end-of-sequence ids count.
    assert lm.eos_ids == (1, 7, 9)


def test_a_padded_output_layer_is_cut_at_the_tokenizers_size(tmp_path: Path) -> None:
    model = tiny_llama(vocab_size=128)
    lm = load_model(str(save_tiny(tmp_path / "padded", model, tiny_tokenizer(96))), "cpu")
    with torch.inference_mode():
        raw = model(torch.tensor([IDS])).logits[0, -1]
    logits = lm.logits(IDS)[-1]
    assert lm.vocab_size == 96 and logits.shape == (96,)
    np.testing.assert_allclose(logits, raw[:96].numpy(), atol=1e-5)
    assert lm.padding_mass == pytest.approx(raw.softmax(-1)[96:].sum().item(), abs=1e-6)
    assert lm.padding_mass > 0.01
    probs = np.exp(pg.shape(logits, pg.SamplingParams())[0].logprobs)
    assert probs.sum() == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize("make", [tiny_gpt2, tiny_llama])
def test_the_position_limit_is_a_message_and_never_an_index_error(
    make: Callable[..., object], tmp_path: Path
) -> None:
    lm = load_model(str(save_tiny(tmp_path / "small", make())), "cpu")
    params = pg.SamplingParams(temperature=0)
    prompt = [2 + i % 90 for i in range(CONTEXT - 1)]
    trace = pg.generate(lm, prompt, params, 5, stop_at_eos=False)
    assert len(trace.ids) == CONTEXT and trace.stop == "context full"
    full = pg.generate(lm, trace.ids, params, 5)
    assert full.new_ids == () and full.stop == "context full"
    with pytest.raises(pg.ContextFull, match=f"{CONTEXT + 1} tokens, and small takes {CONTEXT}"):
        pg.generate(lm, [2] * (CONTEXT + 1), params, 1)

    beams = pg.beam_search(lm, prompt, pg.BeamParams(num_beams=3, max_new_tokens=5))
    assert beams.stop == "context full" and {len(h.ids) for h in beams.hypotheses} == {1}
    drafted = pg.speculative_decode(lm, lm, prompt, pg.SpeculativeParams(gamma=4), params, 5)
    assert drafted.ids == trace.new_ids and drafted.stop == "context full"
    assert np.isfinite(lm.logits(IDS)).all()


def test_a_gguf_file_gives_the_numbers_that_it_was_made_from(tmp_path: Path) -> None:
    model = tiny_llama()
    path = write_gguf(tmp_path / "tiny.Q.gguf", model)
    lm = load_model(path, "cpu")
    expected = TransformersLM(model, tiny_tokenizer())
    np.testing.assert_allclose(lm.logits(IDS), expected.logits(IDS), atol=1e-5)
    assert lm.name == "tiny.Q" and lm.eos_ids == (1,) and lm.bos_id == 0
    assert lm.encode("hello world") == expected.encode("hello world")
    assert load_model(path, "cpu", "bfloat16").dtype == "bfloat16"


def refusal(path: Path) -> str:
    with pytest.raises(ModelError) as caught:
        load_model(path, "cpu")
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_gguf_files_are_refused_with_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_gguf(tmp_path / "tiny.gguf", tiny_llama())
    data = path.read_bytes()
    assert "no such file" in refusal(tmp_path / "other.gguf")
    assert "not a causal language model (found: t5)" in refusal(
        write_gguf(tmp_path / "t5.gguf", tiny_llama(), "t5")
    )
    for keep in (0, 3, 20, 500, len(data) // 10, len(data) - 1000):
        path.write_bytes(data[:keep])
        refusal(path)
    path.write_bytes(b"PK\x03\x04" + data[4:])
    assert "not a GGUF file" in refusal(path)
    path.write_bytes(data)
    monkeypatch.setattr("playground.models.device.free_memory", lambda device: 100_000)
    assert "0.1 MB are free" in refusal(path)


def test_fingerprints_tell_weights_and_dtypes_apart_and_nothing_else(tmp_path: Path) -> None:
    first = save_tiny(tmp_path / "a", tiny_llama(0))
    marks = {
        load_model(first, "cpu").fingerprint,
        load_model(save_tiny(tmp_path / "b" / "a", tiny_llama(1)), "cpu").fingerprint,
        load_model(first, "cpu", "bfloat16").fingerprint,
    }
    assert len(marks) == 3
    moved = Path(shutil.copytree(first, tmp_path / "c" / "a"))
    assert load_model(moved, "cpu").fingerprint in marks


def test_progress_is_told_in_order(llama_folder: Path) -> None:
    seen: list[tuple[float | None, str]] = []
    load_model(llama_folder, "cpu", progress=lambda fraction, text: seen.append((fraction, text)))
    name = llama_folder.name
    assert seen == [(None, f"loading {name} as float32 on cpu"), (1.0, f"{name} is loaded")]


def test_loading_writes_nothing_on_the_console(
    llama_folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    load_model(llama_folder, "cpu")
    assert capfd.readouterr() == ("", "")


def test_the_catalogue_is_read_without_torch() -> None:
    assert CATALOGUE[0].id == "default" and len({entry.id for entry in CATALOGUE}) == len(CATALOGUE)
    code = (
        "import sys, playground.models as m; m.CATALOGUE; m.ModelError; "
        "print({'torch', 'transformers', 'huggingface_hub'} & set(sys.modules))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "set()"


@pytest.mark.gpu
def test_cuda_takes_bfloat16_and_agrees_with_the_cpu(llama_folder: Path) -> None:
    on_gpu, on_cpu = load_model(llama_folder), load_model(llama_folder, "cpu", "bfloat16")
    assert on_gpu.device == "cuda" and on_gpu.dtype in ("bfloat16", "float16")
    exact = load_model(llama_folder, "cuda", "float32")
    reference = load_model(llama_folder, "cpu").logits(IDS)
    np.testing.assert_allclose(exact.logits(IDS), reference, atol=1e-3)
    # bfloat16 has 8 bits: as far from float32 on the GPU as on the CPU, give or take.
    spread = np.abs(on_cpu.logits(IDS) - reference).max()
    assert np.abs(on_gpu.logits(IDS) - reference).max() < 4 * spread + 0.05
