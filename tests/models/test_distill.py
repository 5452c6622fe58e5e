"""The student's training: its corpus, its loss against autograd, and a small run end to end."""

import argparse
import time

import numpy as np
import pytest
import torch

import playground as pg
from playground.models import distill_data, distill_export, distill_train
from playground.models.distill_loss import HeadLoss, figures, head_factor
from playground.models.distill_prompts import CHAT, FILLERS, KINDS, TEXT, Prompts
from playground.models.views import distilled
from tests.tiny import save_tiny, tiny_llama, tiny_tokenizer


def encode(text):
    return tiny_tokenizer()(text, add_special_tokens=False)["input_ids"]


def prompts(held_out=False, seed=0):
    return Prompts(encode, 96, seed, held_out)


def test_prompts_fill_every_blank_and_are_repeatable():
    ours, again = prompts(), prompts()
    for template in (*TEXT.splitlines(), *CHAT.splitlines()):
        text = ours.fill(template)
        assert text == again.fill(template)
        assert "{" not in text.replace("{}", "") and "}" not in text
        assert "\n" not in text and "  " not in text
    for kind in KINDS:
        assert ours.ids(kind, first=True)
    assert "2,500" in {w for w in prompts(held_out=False)._fillers["number"]} | {
        w for w in prompts(held_out=True)._fillers["number"]
    }


def test_held_out_prompts_share_neither_templates_nor_fillers():
    one, other = prompts(), prompts(held_out=True)
    for a, b in [(one._text, other._text), (one._chat, other._chat)] + [
        (one._fillers[name], other._fillers[name]) for name in FILLERS
    ]:
        assert a and b and not set(a) & set(b)


def test_sampled_rows_hold_prompt_then_the_teachers_own_choices():
    teacher = tiny_llama(initializer_range=0.1)
    arrays = distill_data.sample(teacher, prompts(), seed=3, rows=12, length=40)
    assert arrays["ids"].shape == arrays["sampled"].shape == (12, 40)
    exact = distill_data.exact_hidden(teacher, arrays["ids"])
    assert arrays["hidden"].astype(np.float32) == pytest.approx(exact, abs=5e-3)
    for row, kind in enumerate(arrays["kinds"]):
        forced = int(arrays["sampled"][row].argmax())
        if KINDS[kind] in ("word", "free"):
            assert forced == 0
        if KINDS[kind] == "free":
            assert arrays["ids"][row, 0] == 0
    again = distill_data.sample(teacher, prompts(), seed=3, rows=12, length=40)
    assert all(np.array_equal(arrays[k], again[k]) for k in arrays)
    other = distill_data.sample(teacher, prompts(), seed=4, rows=12, length=40)
    assert not np.array_equal(arrays["ids"], other["ids"])


def test_after_the_end_of_a_text_comes_another_prompt():
    teacher = tiny_llama(initializer_range=0.01)  # nearly flat: EOS comes every 96 tokens or so
    arrays = distill_data.sample(teacher, prompts(), seed=0, rows=24, length=100)
    ended = 0
    for row, kind in zip(range(24), arrays["kinds"], strict=True):
        if KINDS[kind] != "free":
            continue
        for t in range(98):
            # the token at t + 1 was the teacher's choice and is EOS: the one after it is forced
            if arrays["sampled"][row, t] and arrays["ids"][row, t + 1] == 1:
                ended += 1
                assert not arrays["sampled"][row, t + 1] and arrays["ids"][row, t + 2] == 0
    assert ended


def test_drawn_tokens_follow_the_teachers_law():
    teacher = tiny_llama()
    free = Prompts(encode, 96, 0)
    free.kind = lambda: "free"
    arrays = distill_data.sample(teacher, free, seed=1, rows=3000, length=2)
    own = arrays["temperatures"] == 1
    hidden = torch.from_numpy(arrays["hidden"][0, 0]).float()
    law = torch.softmax(hidden @ teacher.lm_head.weight.T, -1).detach().numpy()
    counts = np.bincount(arrays["ids"][own, 1], minlength=96)
    expected = law * own.sum()
    some = expected > 5
    chi = ((counts - expected)[some] ** 2 / expected[some]).sum()
    assert chi < some.sum() + 4 * np.sqrt(2 * some.sum())


def test_a_shard_is_whole_or_absent(tmp_path):
    arrays = distill_data.sample(tiny_llama(), prompts(), 0, 4, 12)
    distill_data.save_shard(tmp_path, "train", 0, arrays)
    (tmp_path / "train-00001.npy").write_bytes(b"half")  # killed before the second file
    (path,) = distill_data.shards(tmp_path, "train")
    shard = distill_data.Shard(path)
    assert np.array_equal(shard.ids, arrays["ids"])
    assert np.array_equal(shard.hidden, arrays["hidden"])
    assert distill_data.shards(tmp_path, "held-out") == []


def laws(states, target, head):
    return torch.log_softmax(target @ head.T, -1), torch.log_softmax(states @ head.T, -1)


def test_loss_and_gradient_equal_autograds():
    torch.manual_seed(0)
    head = torch.randn(300, 16).bfloat16()
    states = torch.randn(70, 16).bfloat16().float().requires_grad_()
    target = torch.randn(70, 16).bfloat16().float()
    loss, kl, shared = HeadLoss.apply(states, target, head)
    loss.backward()
    ours, states.grad = states.grad, None
    log_p, log_q = laws(states, target, head.float())
    p, q = log_p.exp(), log_q.exp()
    true_kl, true_shared = (p * (log_p - log_q)).sum(-1).mean(), torch.minimum(p, q).sum(-1).mean()
    (true_kl + 0.5 * (1 - true_shared)).backward()
    assert kl.item() == pytest.approx(true_kl.item(), rel=2e-3)
    assert shared.item() == pytest.approx(true_shared.item(), abs=1e-3)
    # bfloat16 products: a few per cent of the largest entry
    assert (ours - states.grad).abs().max() < 0.05 * states.grad.abs().max()
    cosine = torch.nn.functional.cosine_similarity(ours.ravel(), states.grad.ravel(), 0)
    assert cosine > 0.999


def test_figures_by_hand():
    torch.manual_seed(0)
    states, target, head = torch.randn(5, 8), torch.randn(5, 8), torch.randn(50, 8)
    shared, kl = figures(states, target, head)
    log_p, log_q = (x.double() for x in laws(states, target, head))
    expected = torch.minimum(log_p.exp(), log_q.exp()).sum(-1)
    assert shared == pytest.approx(expected.numpy(), abs=1e-6)
    assert kl == pytest.approx((log_p.exp() * (log_p - log_q)).sum(-1).numpy(), abs=1e-5)
    same, zero = figures(target, target, head)
    assert same == pytest.approx(np.ones(5)) and zero == pytest.approx(np.zeros(5), abs=1e-6)


def test_head_factor_measures_logits_without_the_head():
    torch.manual_seed(0)
    head, d = torch.randn(40, 6), torch.randn(6)
    ids = np.array([[3, 3, 7, 39]], np.uint16)
    weight = np.full(40, 0.5 / 40)
    np.add.at(weight, [3, 3, 7, 39], 0.5 / 4)
    logits = (head @ d).numpy()
    mean = (weight * logits).sum()
    expected = (weight * (logits - mean) ** 2).sum()
    assert (d @ head_factor(head, [ids])).square().sum().item() == pytest.approx(expected, rel=1e-4)


@pytest.fixture
def small(tmp_path, monkeypatch):
    """A teacher of thirty tiny layers on disk, a corpus, and the arguments of a short run."""
    # Little changes from layer to layer, so that six of them can stand for thirty.
    teacher = tiny_llama(num_hidden_layers=30, initializer_range=0.05)
    with torch.no_grad():
        teacher.model.embed_tokens.weight.mul_(20)
        teacher.lm_head.weight.mul_(6)
    save_tiny(tmp_path / "teacher", teacher)
    monkeypatch.setattr(distill_train, "HELD_OUT", 1)
    monkeypatch.setattr(distill_train, "POSITIONS", 128)
    for split, held_out in (("train", False), ("held-out", True)):
        source = prompts(held_out)
        source.kind = lambda: "word"  # a tiny tokenizer's prompts would fill the row
        arrays = distill_data.sample(teacher, source, int(held_out), 16, 24)
        distill_data.save_shard(tmp_path, split, 0, arrays)
    return argparse.Namespace(
        teacher=str(tmp_path / "teacher"), folder=tmp_path, end=time.time() + 1.5, every=1e9
    )


def test_training_learns_resumes_and_exports(small, tmp_path):
    trainer = distill_train.Trainer(small)
    trainer.refresh()
    before = trainer.evaluate()
    frozen = trainer.head.clone()
    for step in range(60):
        trainer.train_step(3e-3, last=step >= 40)
    assert torch.equal(trainer.head, frozen)
    uses = next(iter(trainer.uses.values()))
    assert uses.max() - uses.min() <= 1 and uses.sum() == trainer.tokens / 24
    trainer.record(every=1)
    after = trainer.history[-1]
    assert after["overlap"] > before["overlap"] and after["kl"] < before["kl"]

    resumed = distill_train.Trainer(small)
    assert resumed.step == 60 and str(resumed.history) == str(trainer.history)
    found = resumed.evaluate()
    assert found["overlap"] == pytest.approx(after["overlap"], abs=1e-6)

    # The written file, loaded again, is the student that was measured.
    out = tmp_path / "student"
    figures_written = distill_export.export(resumed, out, "0123456789ab")
    assert figures_written["overlap"] == pytest.approx(after["overlap"], abs=5e-3)
    card = (out / "README.md").read_text("utf-8")
    assert f"**{figures_written['overlap']:.3f}**" in card and "{" not in card
    expert = pg.TransformersLM(
        resumed.teacher, tiny_tokenizer(), name="tiny", fingerprint="0123456789ab"
    )
    student = distilled(expert, out / "model.safetensors")
    ids = [5, 9, 30, 12]
    with torch.inference_mode():
        expected = resumed.student(torch.tensor([ids]), use_cache=False).logits[0].numpy()
    assert student.logits(ids, last=4) == pytest.approx(expected, abs=1e-4)


def test_a_weak_student_is_not_exported(small, tmp_path):
    trainer = distill_train.Trainer(small)
    with torch.no_grad():
        for p in trainer.weights.values():
            p.mul_(-1)
    with pytest.raises(ValueError, match=r"overlap must be at least 0\.4, got 0\."):
        distill_export.export(trainer, tmp_path / "student", "0123456789ab")
    assert not (tmp_path / "student").exists()


def test_the_loop_trains_until_the_time_is_over(small):
    distill_train.train(small)
    trainer = distill_train.Trainer(small)
    assert trainer.step > 0 and len(trainer.history) == 1


def test_the_rate_warms_up_stays_and_falls_to_zero():
    rate = distill_train.rate_at
    assert rate(0, 0) == pytest.approx(distill_train.RATE / distill_train.WARMUP)
    assert rate(500, 0) == rate(500, 0.6) == distill_train.RATE
    assert rate(500, 1 - distill_train.FALL / 2) == pytest.approx(distill_train.RATE / 2)
    assert rate(500, 1) == 0
