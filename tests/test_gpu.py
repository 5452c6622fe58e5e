"""On a GPU only speed and rounding differ: same plumbing, logits near the CPU's."""

import numpy as np
import pytest
import torch

import playground as pg
from playground.lm import TransformersLM
from tests.tiny import FAMILIES, tiny_llama, tiny_tokenizer

pytestmark = pytest.mark.gpu
IDS = [5, 17, 40, 41, 9, 60, 33, 12]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float32, 2e-3), (torch.bfloat16, 0.35), (torch.float16, 0.05)]
)
def test_logits_are_float32_on_the_cpu_and_near_the_cpus(family, dtype, tolerance):
    if dtype == torch.bfloat16 and not torch.cuda.is_bf16_supported():
        pytest.skip("this GPU has no bfloat16")
    small = FAMILIES[family](initializer_range=0.1)
    want = TransformersLM(small, tiny_tokenizer()).logits(IDS, last=4)
    lm = TransformersLM(FAMILIES[family](initializer_range=0.1).to("cuda", dtype), tiny_tokenizer())
    got = lm.logits(IDS, last=4)
    assert got.dtype == np.float32 and lm.device == "cuda"
    assert lm.dtype == str(dtype).removeprefix("torch.")
    assert np.abs(got - want).max() < tolerance
    batch = lm.logits_many([IDS, IDS[:3], IDS[:6]])
    assert np.abs(batch[0, 0] - want[-1]).max() < tolerance


def test_steps_on_the_gpu_draw_inside_the_vocabulary():
    lm = TransformersLM(tiny_llama().to("cuda", torch.bfloat16), tiny_tokenizer())
    trace = pg.generate(lm, IDS, pg.SamplingParams(top_k=20), 60, stop_at_eos=False)
    assert len(trace.new_ids) == 60 and all(0 <= i < 96 for i in trace.new_ids)
    assert lm.forwards == 60 and lm.forwarded == len(IDS) + 59


def test_loading_chooses_the_gpu_and_half_precision(tmp_path):
    from tests.tiny import save_tiny

    lm = pg.load_model(str(save_tiny(tmp_path / "tiny")))
    want = "bfloat16" if torch.cuda.is_bf16_supported() else "float16"
    assert (lm.device, lm.dtype) == ("cuda", want)
