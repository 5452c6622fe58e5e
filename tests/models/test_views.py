"""Weaker views of a model: each is what its name says, on the model's own weights."""

import copy

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

import playground as pg
from playground.models.student import LAYERS, load_student, own_weights, shallow
from playground.models.views import STUDENT, ShortContext, distilled
from tests.tiny import tiny_gemma3, tiny_gpt2, tiny_llama, tiny_tokenizer

IDS = [5, 9, 30, 12, 40, 7, 7, 21, 33]
BUILDERS = {"llama": tiny_llama, "gpt2": tiny_gpt2}


def lm_of(model, name="tiny", mark="0123456789ab"):
    return pg.TransformersLM(model, tiny_tokenizer(), name=name, fingerprint=mark)


def deep(family):
    depth = {"llama": "num_hidden_layers", "gpt2": "n_layer"}[family]
    return BUILDERS[family](**{depth: 4})


def exit_by_hand(model, ids, layer):
    """The hidden state after a layer, through the final norm and the head."""
    with torch.inference_mode():
        states = model(torch.tensor([ids]), output_hidden_states=True).hidden_states[layer]
        norm = model.model.norm if hasattr(model, "model") else model.transformer.ln_f
        return model.lm_head(norm(states))[0].numpy()


@pytest.mark.parametrize("family", BUILDERS)
@pytest.mark.parametrize("layer", [1, 2, 3])
def test_early_exit_is_the_layers_state_through_norm_and_head(family, layer):
    model = deep(family)
    view = pg.amateur_of(lm_of(model), "early-exit", layer=layer)
    expected = exit_by_hand(model, IDS, layer)
    assert view.logits(IDS, last=len(IDS)) == pytest.approx(expected, abs=1e-4)
    assert f"first {layer} of 4 layers" in view.name


@pytest.mark.parametrize("family", BUILDERS)
def test_early_exit_step_by_step_equals_a_fresh_run_and_leaves_the_expert_alone(family):
    expert = lm_of(deep(family))
    view = pg.draft_of(expert, "early-exit")
    before = lm_of(deep(family)).logits(IDS)
    for end in range(1, len(IDS) + 1):
        expert.logits(IDS[:end])
        stepped = view.logits(IDS[:end])[0]
        fresh = pg.amateur_of(lm_of(deep(family)), "early-exit").logits(IDS[:end])[0]
        assert stepped == pytest.approx(fresh, abs=1e-4)
    assert expert.logits(IDS) == pytest.approx(before, abs=1e-4)


@pytest.mark.parametrize("family", BUILDERS)
def test_early_exit_shares_every_weight(family):
    model = deep(family)
    theirs = {p.data_ptr() for p in model.parameters()}
    view = pg.amateur_of(lm_of(model), "early-exit", layer=2)
    assert {p.data_ptr() for p in view.model.parameters()} < theirs
    assert view.parameters < sum(p.numel() for p in model.parameters())


def test_all_layers_are_the_model_itself():
    lm = lm_of(deep("llama"))
    assert np.array_equal(pg.amateur_of(lm, "early-exit", layer=4).logits(IDS), lm.logits(IDS))


def test_early_exit_refusals():
    lm = lm_of(deep("llama"))
    for layer in (0, 5):
        with pytest.raises(ValueError, match=rf"layer must be .*\[1, 4\], got {layer}"):
            pg.amateur_of(lm, "early-exit", layer=layer)
    with pytest.raises(ValueError, match="families: .*llama.*got gemma3_text"):
        pg.amateur_of(lm_of(tiny_gemma3()), "early-exit")
    toy = pg.TableLM({None: [0.5, 0.5]}, name="toy")
    with pytest.raises(ValueError, match="early-exit for toy"):
        pg.amateur_of(toy, "early-exit")
    with pytest.raises(ValueError, match="kind must be one of .*short-context.*got 'smaller'"):
        pg.amateur_of(lm, "smaller")


@pytest.mark.parametrize("context", [1, 3, 20])
def test_short_context_sees_the_last_tokens_only(context):
    lm = lm_of(tiny_llama())
    view = pg.amateur_of(lm, "short-context", context=context)
    block = view.logits(IDS, last=4)
    for back in range(4):
        ids = IDS[: len(IDS) - back]
        fresh = lm_of(tiny_llama()).logits(ids[-context:])[0]
        assert block[3 - back] == pytest.approx(fresh, abs=1e-4)
    many = view.logits_many([IDS, IDS[:4]], last=2)
    assert many.shape == (2, 2, lm.vocab_size)
    assert many[0] == pytest.approx(block[2:], abs=1e-4)
    assert many[1, 1] == pytest.approx(view.logits(IDS[:4])[0], abs=1e-4)
    assert view.label(5) == lm.label(5) and view.token_strings == lm.token_strings
    assert isinstance(view, pg.LanguageModel) and f"last {context} token" in view.name


def test_short_context_never_fills_up_and_refuses_nonsense():
    toy = pg.TableLM({None: [0.5, 0.5]}, context_length=4, name="toy")
    view = pg.amateur_of(toy, "short-context", context=4)
    assert view.logits([0] * 50).shape == (1, 2)
    assert not hasattr(view, "token_strings")
    with pytest.raises(ValueError, match=r"context must be .*\[1, 4\], got 5"):
        ShortContext(toy, 5)
    with pytest.raises(ValueError, match=r"\[0, 1\], got 2"):
        view.logits([0, 2])
    with pytest.raises(ValueError, match="last must be"):
        view.logits([0], last=2)


def test_contrastive_amateur_equals_a_fresh_run_after_ten_steps():
    from playground.engines.contrastive import stream

    params, greedy = pg.ContrastiveParams(), pg.SamplingParams(temperature=0)
    for kind in ("early-exit", "short-context"):
        expert = lm_of(deep("llama"))
        amateur = pg.amateur_of(expert, kind, context=5, layer=2)
        steps = list(stream(expert, amateur, IDS, params, greedy, 10, stop_at_eos=False))
        ids = IDS + [s.step.token_id for s in steps[:-1]]
        fresh = pg.amateur_of(lm_of(deep("llama")), kind, context=5, layer=2).logits(ids)[0]
        law = np.exp(fresh - fresh.max()) / np.exp(fresh - fresh.max()).sum()
        assert np.exp(steps[-1].amateur_logprobs) == pytest.approx(law, abs=1e-4)
        alone = lm_of(deep("llama")).logits(ids)[0]
        alone = np.exp(alone - alone.max()) / np.exp(alone - alone.max()).sum()
        assert np.exp(steps[-1].expert_logprobs) == pytest.approx(alone, abs=1e-4)


def student_file(folder, model, teacher="0123456789ab", layers=(0, 3)):
    """A student of some layers, its weights changed, so that it is nobody's copy."""
    student = shallow(model, layers, own=True)
    weights = {k: v.detach() * 1.5 for k, v in own_weights(student).items()}
    save_file(weights, folder / "model.safetensors", {"teacher": teacher})
    return folder / "model.safetensors", weights


def test_a_student_has_its_own_layers_and_its_teachers_embeddings_and_head(tmp_path):
    model = deep("llama")
    before = copy.deepcopy(model.state_dict())
    path, weights = student_file(tmp_path, model)
    student = load_student(model, path)
    assert student.lm_head.weight is model.lm_head.weight
    assert student.model.embed_tokens is model.model.embed_tokens
    for name, p in own_weights(student).items():
        assert torch.equal(p, weights[name])
    # By hand: a two-layer model filled with those tensors.
    plain = tiny_llama(num_hidden_layers=2)
    plain.load_state_dict(
        {
            **{k: v for k, v in before.items() if not k.startswith("model.layers.")},
            **{f"model.{k}": v for k, v in weights.items()},
        }
    )
    view = distilled(lm_of(model), path)
    for end in range(1, len(IDS) + 1):  # step by step, so that each layer finds its own cache
        assert view.logits(IDS[:end]) == pytest.approx(lm_of(plain).logits(IDS[:end]), abs=1e-4)
    assert all(torch.equal(p, before[k]) for k, p in model.state_dict().items())
    assert "distilled to 2 layers" in view.name and view.vocab_size == lm_of(model).vocab_size


def test_layers_taken_from_anywhere_find_their_own_caches():
    student = lm_of(shallow(deep("llama"), (3, 0, 3), own=True))
    for end in range(1, len(IDS) + 1):
        fresh = lm_of(shallow(deep("llama"), (3, 0, 3), own=True))
        assert student.logits(IDS[:end]) == pytest.approx(fresh.logits(IDS[:end]), abs=1e-4)
    with torch.inference_mode():  # the same layers, one after the other and without a cache
        plain = student.model(torch.tensor([IDS]), use_cache=False).logits[0, -1].numpy()
    assert student.logits(IDS)[0] == pytest.approx(plain, abs=1e-4)
    with pytest.raises(ValueError, match=r"shared layers must be the first ones, got \(3, 0\)"):
        shallow(deep("llama"), (3, 0))
    with pytest.raises(ValueError, match=r"layers must be some of 0 to 3, got \(4,\)"):
        shallow(deep("llama"), (4,), own=True)


def test_a_student_belongs_to_its_teacher_alone(tmp_path):
    path, _ = student_file(tmp_path, deep("llama"), teacher="feedfeedfeed")
    with pytest.raises(ValueError, match="distilled for tiny: the student was trained to the def"):
        distilled(lm_of(deep("llama")), path)
    with pytest.raises(ValueError, match="distilled for toy: the student was trained"):
        distilled(pg.TableLM({None: [0.5, 0.5]}, name="toy"), path)
    with pytest.raises(ValueError, match="the student's file is missing"):
        distilled(lm_of(deep("llama")), tmp_path / "none.safetensors")
    wide = tiny_llama(num_hidden_layers=4, intermediate_size=48)
    with pytest.raises(ValueError, match="doesn't fit llama"):
        load_student(wide, path)


@pytest.mark.skipif(not STUDENT.is_file(), reason="the student isn't shipped yet")
def test_the_shipped_student_is_half_precision_small_and_overlaps_the_default_model(default_lm):
    assert STUDENT.stat().st_size <= 45e6
    draft = pg.draft_of(default_lm)
    assert draft.model.config.num_hidden_layers == len(LAYERS)
    texts = (
        "The river rises in the hills above the town and",
        "She put the letter back into the drawer and",
        "A good teacher listens before",
        "The recipe is simple: flour, eggs, milk and a little",
    )
    shared = []
    for text in texts:
        ids = default_lm.encode(text)
        p, q = (
            np.exp(lm.logits(ids, last=len(ids) - 1).astype(np.float64))
            for lm in (default_lm, draft)
        )
        p, q = p / p.sum(-1, keepdims=True), q / q.sum(-1, keepdims=True)
        shared += np.minimum(p, q).sum(-1).tolist()
    assert np.mean(shared) > 0.4
