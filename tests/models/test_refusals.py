"""Folders that aren't loaded, each with its reason in one line and before its weights are read."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import psutil
import pytest
import torch
import transformers

from playground.models import ModelError, load_model
from tests.tiny import save_tiny, tiny_gpt2, tiny_llama, tiny_tokenizer


@pytest.fixture
def copy(llama_folder: Path, tmp_path: Path) -> Path:
    """A copy of the tiny Llama's folder, to be damaged."""
    return Path(shutil.copytree(llama_folder, tmp_path / "copy"))


@pytest.fixture
def weights_stay_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail the test when any model is built."""

    def built(*_: Any, **__: Any) -> None:
        raise AssertionError("the weights were read")

    monkeypatch.setattr(transformers.AutoModelForCausalLM, "from_pretrained", built)


def why_not(folder: Path, **options: str) -> str:
    with pytest.raises(ModelError) as caught:
        load_model(str(folder), "cpu", **options)
    assert isinstance(caught.value, ValueError)
    message = str(caught.value)
    assert "\n" not in message and len(message) < 300
    return message


def small_t5() -> transformers.PreTrainedModel:
    config = transformers.T5Config(
        vocab_size=96, d_model=16, d_kv=8, d_ff=32, num_layers=1, num_heads=2
    )
    return transformers.T5ForConditionalGeneration(config)


def small_bert() -> transformers.PreTrainedModel:
    config = transformers.BertConfig(
        vocab_size=96,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
    )
    return transformers.BertForMaskedLM(config)


@pytest.mark.parametrize("make", [small_t5, small_bert])
def test_encoder_decoders_and_encoders_are_named_and_the_loaded_model_works(
    make: Callable[[], transformers.PreTrainedModel], llama_folder: Path, tmp_path: Path
) -> None:
    loaded = load_model(str(llama_folder), "cpu")
    before = loaded.logits([3, 4, 5])
    model = make()
    folder = save_tiny(tmp_path / "other", model)
    message = why_not(folder)
    assert message == (f"other is not a causal language model (found: {type(model).__name__})")
    loaded.clear()
    np.testing.assert_array_equal(loaded.logits([3, 4, 5]), before)


@pytest.mark.parametrize(
    ("lie", "reason"),
    [
        ({"architectures": ["LlamaModel"]}, "not a causal language model (found: LlamaModel)"),
        (
            {"architectures": ["LlamaForSequenceClassification"]},
            "not a causal language model (found: LlamaForSequenceClassification)",
        ),
        # BERT with a causal head still reads both ways unless its config says decoder.
        ({"architectures": ["BertLMHeadModel"], "model_type": "bert"}, "not a causal"),
        ({"architectures": [], "model_type": "bert"}, "not a causal language model (found: bert)"),
        ({"architectures": ["NewForCausalLM"], "model_type": "new"}, "doesn't know (found: New"),
        ({"architectures": [], "model_type": None}, "doesn't know (found: no model_type)"),
    ],
)
def test_the_config_alone_refuses(
    tmp_path: Path, weights_stay_closed: None, lie: dict[str, Any], reason: str
) -> None:
    assert reason in why_not(save_tiny(tmp_path / "liar", **lie))


def test_a_config_without_architectures_is_taken_at_its_type(tmp_path: Path) -> None:
    lm = load_model(str(save_tiny(tmp_path / "plain", architectures=None)), "cpu")
    assert lm.vocab_size == 96


REMOTE = {
    "model_type": "own",
    "architectures": ["OwnForCausalLM"],
    "auto_map": {"AutoConfig": "code.OwnConfig", "AutoModelForCausalLM": "code.OwnForCausalLM"},
}


@pytest.fixture
def nobody_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail the test when anything asks a question on the console."""

    def asked(*_: Any) -> str:
        raise AssertionError("a question was asked on the console")

    monkeypatch.setattr("builtins.input", asked)


def code_that_tells(folder: Path) -> Path:
    """Put code into a folder that leaves a file when it is run; return that file's path."""
    ran = folder.parent / "the-code-ran"
    (folder / "code.py").write_text(f"open({str(ran)!r}, 'w').close()\n")
    return ran


def test_foreign_code_is_refused_at_once_unasked_and_unrun(
    tmp_path: Path, weights_stay_closed: None, nobody_is_asked: None
) -> None:
    folder = save_tiny(tmp_path / "own", **REMOTE)
    ran = code_that_tells(folder)
    start = time.monotonic()
    message = why_not(folder)
    assert time.monotonic() - start < 5
    assert "needs code of its own (OwnForCausalLM)" in message
    assert not ran.exists()


def test_foreign_code_beside_a_known_type_is_left_alone(
    tmp_path: Path, nobody_is_asked: None
) -> None:
    folder = save_tiny(tmp_path / "both", auto_map=REMOTE["auto_map"])
    ran = code_that_tells(folder)
    expected = load_model(str(save_tiny(tmp_path / "plain")), "cpu").logits([3, 4, 5])
    np.testing.assert_array_equal(load_model(str(folder), "cpu").logits([3, 4, 5]), expected)
    assert not ran.exists()


def test_a_tokenizer_that_needs_foreign_code_is_refused(
    copy: Path, weights_stay_closed: None, nobody_is_asked: None
) -> None:
    ran = code_that_tells(copy)
    path = copy / "tokenizer_config.json"
    auto_map = {"AutoTokenizer": ["code.OwnTokenizer", None]}
    said = json.loads(path.read_text()) | {"tokenizer_class": "OwnTokenizer", "auto_map": auto_map}
    path.write_text(json.dumps(said))
    assert "the tokenizer of copy needs code of its own" in why_not(copy)
    assert not ran.exists()


def test_pickled_weights_are_never_opened(copy: Path, tmp_path: Path) -> None:
    ran = tmp_path / "the-pickle-ran"

    class Trap:
        def __reduce__(self) -> tuple[Any, ...]:
            return open, (str(ran), "w")

    (copy / "model.safetensors").unlink()
    torch.save({"w": Trap()}, copy / "pytorch_model.bin")
    message = why_not(copy)
    assert "pytorch_model.bin" in message and "only safetensors" in message
    assert not ran.exists()


def drop(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).unlink()


def cut(name: str, keep: float) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        data = (folder / name).read_bytes()
        (folder / name).write_bytes(data[: int(len(data) * keep)])

    return damage


def lose_a_part(folder: Path) -> None:
    tiny_llama().save_pretrained(folder, max_shard_size="60KB")
    (folder / "model.safetensors").unlink()
    next(folder.glob("model-00002*")).unlink()


def point_outside(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder.parent / "elsewhere.safetensors")
    index = {"weight_map": {"lm_head.weight": "../elsewhere.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (drop("config.json"), "no config.json"),
        (drop("model.safetensors"), "has no weights"),
        (drop("tokenizer.json"), "has no tokenizer"),
        (cut("config.json", 0.5), "config.json isn't JSON"),
        (cut("model.safetensors", 0.9), "model.safetensors isn't whole"),
        (cut("model.safetensors", 0.001), "model.safetensors isn't whole"),
        (cut("model.safetensors", 0), "model.safetensors isn't whole"),
        (lose_a_part, "1 of its"),
        (point_outside, "1 of its 1 weight files"),
    ],
)
def test_damaged_folders_say_what_is_wrong(
    copy: Path, weights_stay_closed: None, damage: Callable[[Path], None], reason: str
) -> None:
    damage(copy)
    assert reason in why_not(copy)


@pytest.mark.parametrize("name", ["tokenizer.json", "tokenizer_config.json"])
def test_a_damaged_tokenizer_is_one_line_too(copy: Path, name: str) -> None:
    cut(name, 0.5)(copy)
    assert why_not(copy).startswith("copy ")


def test_weights_that_lack_tensors_are_refused_not_filled_with_chance(
    tmp_path: Path,
) -> None:
    folder = save_tiny(tmp_path / "short", tiny_llama(), num_hidden_layers=3)
    assert "lack" in why_not(folder)


def test_too_big_a_model_is_refused_with_both_figures_before_it_is_read(
    llama_folder: Path, weights_stay_closed: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    parameters = sum(p.numel() for p in tiny_llama().parameters())
    needed = parameters * 4 * 1.1 / 1e6
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=100_000))
    message = why_not(llama_folder)
    assert f"needs about {needed:.3g} MB as float32 on cpu" in message
    assert "0.1 MB are free" in message


def test_half_the_bytes_may_fit_where_all_do_not(
    llama_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parameters = sum(p.numel() for p in tiny_llama().parameters())
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=parameters * 3))
    assert "too big" in why_not(llama_folder)
    assert load_model(str(llama_folder), "cpu", "bfloat16").dtype == "bfloat16"


def test_a_containers_limit_counts(
    llama_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import playground.models.device as device

    group = tmp_path / "cgroup"
    group.mkdir()
    (group / "memory.max").write_text("1000000\n")
    (group / "memory.current").write_text("990000\n")
    (group / "memory.stat").write_text("anon 900000\ninactive_file 20000\n")
    monkeypatch.setattr(device, "CGROUP", group)
    assert "0.03 MB are free" in why_not(llama_folder)
    (group / "memory.max").write_text("max\n")
    assert load_model(str(llama_folder), "cpu").vocab_size == 96


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"device": "tpu"}, "device tpu isn't at hand (found: "),
        ({"device": "cpu:1"}, "device cpu:1 isn't at hand"),
        (
            {"dtype": "float64"},
            "dtype must be one of auto, float32, bfloat16, float16, got float64",
        ),
        ({"dtype": ""}, "dtype must be one of"),
    ],
)
def test_wrong_devices_and_dtypes_name_the_right_ones(
    llama_folder: Path, options: dict[str, str], reason: str
) -> None:
    with pytest.raises(ModelError) as caught:
        load_model(str(llama_folder), **options)
    assert reason in str(caught.value)


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has CUDA")
def test_cuda_is_refused_where_there_is_none(llama_folder: Path) -> None:
    with pytest.raises(ModelError, match=r"device cuda isn't at hand \(found: .*cpu\)"):
        load_model(str(llama_folder), "cuda")


def test_a_tokenizer_wider_than_the_model_is_no_reason_to_fail(tmp_path: Path) -> None:
    folder = save_tiny(tmp_path / "narrow", tiny_gpt2(vocab_size=64), tiny_tokenizer(96))
    assert load_model(str(folder), "cpu").vocab_size == 64
