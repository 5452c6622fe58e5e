"""Generated scripts, run as files: they match true runs, and print the difference of false ones."""

import contextlib
import dataclasses
import io
import subprocess
import sys

import numpy as np
import pytest
import transformers

import playground as pg
from playground.models import load_model
from playground.models.fingerprint import fingerprint
from playground.models.views import distilled, weights_mark
from playground.processors.dialects import DEFAULT_ORDER
from playground.proof import transformers_script
from playground.proof_call import generate_call
from playground.proof_model import pin
from playground.words import entries
from tests.models.test_views import student_file
from tests.tiny import save_tiny, tiny_gpt2, tiny_llama

S = pg.SamplingParams
GREEDY = S(temperature=0)
NUCLEUS = S(temperature=0.9, top_p=0.8, seed=4)
LENGTH = 10


@pytest.fixture(scope="module")
def lm(tmp_path_factory):
    folder = save_tiny(tmp_path_factory.mktemp("models") / "llama", tiny_llama())
    return load_model(str(folder), device="cpu")


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory):
    folder = save_tiny(tmp_path_factory.mktemp("models") / "gpt2", tiny_gpt2())
    return load_model(str(folder), device="cpu")


@pytest.fixture(scope="module")
def prompt(lm):
    return tuple(lm.encode("hello you"))


def play(script):
    """Run a script in this interpreter; return (exit status, what it printed)."""
    said, status = io.StringIO(), 0
    with contextlib.redirect_stdout(said):
        try:
            exec(compile(script, "proof.py", "exec"), {"__name__": "__main__"})
        except SystemExit as end:
            status = end.code
    return status, said.getvalue() if not isinstance(status, str) else status


@pytest.fixture(scope="module")
def shelf():
    return {}


@pytest.fixture(autouse=True)
def bare(monkeypatch, shelf):
    """No arguments, and a model that a script loaded before is not read again."""
    monkeypatch.setattr(sys, "argv", ["proof.py"])
    for kind in (transformers.AutoModelForCausalLM, transformers.AutoTokenizer):
        load = kind.from_pretrained

        def once(*args, load=load, **options):
            key = repr((load.__self__, args, sorted(options)))
            if key not in shelf:
                shelf[key] = load(*args, **options)
            return shelf[key]

        monkeypatch.setattr(kind, "from_pretrained", once)


def matches(script):
    status, said = play(script)
    assert said.startswith("MATCH: "), said
    return status == 0


def differs(script, *words):
    status, said = play(script)
    assert status == 1 and said.startswith("DIFFERENCE at "), said
    assert all(word in said for word in words), said
    return True


def falsified(trace, place, **changes):
    """The trace with one step changed."""
    steps = list(trace.steps)
    steps[place] = dataclasses.replace(steps[place], **changes)
    return dataclasses.replace(trace, steps=tuple(steps))


def other(token):
    return 40 if token != 40 else 41


# --- greedy and sampling


def test_greedy_runs_as_a_file_of_its_own(lm, prompt, tmp_path):
    trace = pg.generate(lm, prompt, GREEDY, LENGTH)
    path = tmp_path / "proof.py"
    path.write_text(transformers_script(trace, lm), "utf-8")
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"MATCH: {len(trace.steps)} tokens by generate()")


def test_greedy_differences_are_told(lm, prompt):
    trace = pg.generate(lm, prompt, GREEDY, LENGTH)
    wrong = other(trace.new_ids[3])
    assert differs(
        transformers_script(falsified(trace, 3, token_id=wrong), lm),
        "token 4",
        f"the run has {wrong} ",
        f"here it is {trace.new_ids[3]} ",
    )
    near = falsified(trace, 2, model_logprob=trace.steps[2].model_logprob + 0.01)
    assert differs(transformers_script(near, lm), "token 3")


# Every filter of every dialect, by itself and with others, in a chain that leaves some choice.
CHAINS = {
    "plain": S(),
    "nucleus": NUCLEUS,
    "truncations": S(0.8, top_k=30, top_p=0.95, min_p=0.01, typical_p=0.9, seed=3),
    "cutoffs": S(1.2, epsilon_cutoff=0.003, eta_cutoff=0.01, seed=5),
    "penalties": S(0.9, repetition_penalty=1.3, no_repeat_ngram_size=2, banned_tokens=(3, 7)),
    "generated": S(1.1, repetition_penalty=1.4, penalize_prompt=False, presence_penalty=0.3),
    "counts": S(0.9, presence_penalty=0.4, frequency_penalty=-0.2, seed=8),
    "sigma": S(1.5, top_n_sigma=1.0, seed=2),
    "xtc": S(1.0, xtc_probability=0.5, xtc_threshold=0.1, seed=2),
    "vllm": S(0.9, top_k=9, min_p=0.02, frequency_penalty=0.5, dialect="vllm"),
    "llama.cpp": S(0.7, top_k=20, typical_p=0.8, top_p=0.9, dialect="llama.cpp", seed=6),
    "order": S(1.3, top_k=9, top_p=0.9, order=("top_p", "temperature", "top_k"), seed=1),
    "cool order": S(0.0, top_k=9, repetition_penalty=1.2, seed=1),
}


@pytest.mark.parametrize("name", CHAINS)
def test_sampling_by_any_filters(lm, prompt, name):
    trace = pg.generate(lm, prompt, CHAINS[name], LENGTH)
    assert matches(transformers_script(trace, lm))


def test_the_chains_have_every_filter():
    used = {name for params in CHAINS.values() for name in pg.processors.active_filters(params)}
    assert used >= set(DEFAULT_ORDER["transformers"])


def test_a_false_draw_is_told(lm, prompt):
    trace = pg.generate(lm, prompt, NUCLEUS, LENGTH)
    wrong = falsified(trace, 4, token_id=other(trace.new_ids[4]))
    assert differs(transformers_script(wrong, lm), "token 5")
    seed = dataclasses.replace(
        trace, steps=tuple(dataclasses.replace(s, params=S(seed=5)) for s in trace.steps)
    )
    assert differs(transformers_script(seed, lm))
    kept = falsified(trace, 1, kept=trace.steps[1].kept + 1)
    assert differs(transformers_script(kept, lm), "token 2", "tokens left")


def test_choices_by_hand_and_other_settings_on_the_way(lm, prompt):
    trace = pg.generate(lm, prompt, NUCLEUS, 3)
    ids = trace.ids
    from playground.engines.sampling import step

    forced = step(lm, ids, NUCLEUS, len(prompt), force=int(np.argmin(lm.logits(ids)[-1])))
    later = step(lm, (*ids, forced.token_id), GREEDY, len(prompt))
    mixed = dataclasses.replace(trace, steps=(*trace.steps, forced, later))
    assert forced.logprob == -np.inf  # the filters masked it
    assert matches(transformers_script(mixed, lm))


# --- beams


@pytest.mark.parametrize(
    "params",
    [
        pg.BeamParams(num_beams=3, max_new_tokens=8),
        pg.BeamParams(num_beams=4, max_new_tokens=8, length_penalty=2.0, early_stopping=True),
        pg.BeamParams(num_beams=2, max_new_tokens=6, early_stopping="never", num_return=1),
        pg.BeamParams(num_beams=3, max_new_tokens=6, sampling=S(0.7, no_repeat_ngram_size=2)),
        # Scores of thousands, in float32.
        pg.BeamParams(num_beams=3, max_new_tokens=40, length_penalty=-2.0, stop_at_eos=False),
        pg.BeamParams(num_beams=1, max_new_tokens=5),
        pg.BeamParams(num_beams=4, num_groups=2, diversity_penalty=1.0, max_new_tokens=5),
        pg.BeamParams(num_beams=3, do_sample=True, max_new_tokens=5),
    ],
)
def test_beams(lm, prompt, params):
    result = pg.beam_search(lm, prompt, params)
    assert matches(transformers_script(result, lm))
    best = result.hypotheses[0]
    ids = (*best.ids[:-1], other(best.ids[-1]))
    wrong = dataclasses.replace(best, ids=ids)
    false = dataclasses.replace(result, hypotheses=(wrong, *result.hypotheses[1:]))
    assert differs(transformers_script(false, lm), "hypothesis 1")


def test_a_search_under_way_has_nothing_to_prove(lm, prompt):
    result = pg.beam_search(lm, prompt, pg.BeamParams(num_beams=2, max_new_tokens=4))
    with pytest.raises(ValueError, match="the search has not ended"):
        transformers_script(dataclasses.replace(result, stop=""), lm)


# --- two models


def second(lm, gpt2, kind):
    if kind == "other":
        return gpt2
    if kind == "lookup":
        return pg.PromptLookup()
    return pg.amateur_of(lm, kind, context=2, layer=1)


@pytest.mark.parametrize("kind", ["short-context", "early-exit", "other"])
@pytest.mark.parametrize(
    "params",
    [
        pg.ContrastiveParams(),
        pg.ContrastiveParams(0.02, 0.7, 0.5, "one_plus_beta", "generated"),
    ],
)
def test_contrastive(lm, gpt2, prompt, kind, params):
    amateur = second(lm, gpt2, kind)
    for sampling in (GREEDY, NUCLEUS):
        trace = pg.contrastive_decode(lm, amateur, prompt, params, sampling, LENGTH)
        assert matches(transformers_script(trace, lm, amateur, params))
    wrong = falsified(trace, 1, token_id=other(trace.new_ids[1]))
    assert differs(transformers_script(wrong, lm, amateur, params), "token 2")


def test_a_student_is_grown_again_from_its_file(lm, prompt, tmp_path):
    path, _ = student_file(tmp_path, lm.model, weights_mark(lm), (0, 1))
    student = distilled(lm, path)
    params = pg.ContrastiveParams()
    trace = pg.contrastive_decode(lm, student, prompt, params, NUCLEUS, LENGTH)
    script = transformers_script(trace, lm, student, params)
    assert matches(script)
    run = pg.speculative_decode(lm, student, prompt, pg.SpeculativeParams(3), NUCLEUS, LENGTH)
    assert matches(transformers_script(run, lm, student))
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    status, said = play(script)
    assert status and "isn't that of the run" in said


@pytest.mark.parametrize("kind", ["early-exit", "other", "lookup"])
@pytest.mark.parametrize("sampling", [GREEDY, NUCLEUS, S(1.2, repetition_penalty=1.2, seed=9)])
def test_speculative(lm, gpt2, prompt, kind, sampling):
    draft = second(lm, gpt2, kind)
    params = pg.SpeculativeParams(gamma=3)
    run = pg.speculative_decode(lm, draft, prompt, params, sampling, LENGTH)
    assert matches(transformers_script(run, lm, draft))
    one = run.rounds[1]
    wrong = dataclasses.replace(one, next_id=other(one.next_id))
    false = dataclasses.replace(run, rounds=(run.rounds[0], wrong, *run.rounds[2:]))
    assert differs(transformers_script(false, lm, draft), "round 2")


# --- pins


def test_a_script_names_its_model_and_refuses_other_weights(lm, prompt, tmp_path):
    place = pin(lm)
    assert place.weights in lm.fingerprint and place.revision == ""
    script = transformers_script(pg.generate(lm, prompt, GREEDY, 3), lm)
    assert place.source in script
    save_tiny(tmp_path / "other", tiny_llama(seed=1))
    status, said = play(script.replace(repr(place.source), repr(str(tmp_path / "other"))))
    assert "aren't those of the run" in said
    status, said = play(script.replace(repr(place.source), repr(str(tmp_path / "none"))))
    assert "name its folder" in said


def test_a_hub_model_is_pinned_by_its_commit(tmp_path):
    folder = tmp_path / "models--some--model" / "snapshots" / ("ab" * 20)
    lm = load_model(str(save_tiny(folder)), device="cpu")
    place = pin(lm)
    assert (place.source, place.revision) == ("some/model", "ab" * 20)


def test_models_that_no_script_can_load(lm, prompt, tmp_path):
    table = pg.TableLM({None: [0.5, 0.5], 0: [0.5, 0.5], 1: [0.9, 0.1]}, eos_ids=())
    trace = pg.generate(table, (0,), GREEDY, 2)
    with pytest.raises(ValueError, match="table can't be pinned: it is no model"):
        transformers_script(trace, table)
    in_memory = pg.TransformersLM(tiny_llama(), lm.tokenizer, name="made", fingerprint="x")
    with pytest.raises(ValueError, match="made can't be pinned: no files"):
        pin(in_memory)
    with pytest.raises(ValueError, match="can't be pinned: it was made from another model"):
        pin(pg.amateur_of(lm, "early-exit", layer=1))
    moved = load_model(str(save_tiny(tmp_path / "moved")), device="cpu")
    save_tiny(tmp_path / "moved", tiny_llama(seed=5))
    assert fingerprint(sorted((tmp_path / "moved").glob("*.safetensors"))) not in moved.fingerprint
    with pytest.raises(ValueError, match="its files aren't those"):
        pin(moved)
    with pytest.raises(ValueError, match="nothing to prove yet"):
        transformers_script(pg.generate(lm, prompt, GREEDY, 0), lm)


# --- the one call


def call_matches(lm, call, prompt, want):
    import torch

    found = eval(call.code, {"model": lm.model, "input_ids": torch.tensor([prompt])})
    return tuple(found[0, len(prompt) :].tolist()) == want


def test_the_call_does_what_the_run_did_where_nothing_is_drawn(lm, prompt):
    trace = pg.generate(lm, prompt, GREEDY.replace(repetition_penalty=1.3), LENGTH)
    call = generate_call(trace)
    assert call.notes == () and "repetition_penalty=1.3" in call.code
    assert call_matches(lm, call, list(prompt), trace.new_ids)
    result = pg.beam_search(lm, prompt, pg.BeamParams(num_beams=3, max_new_tokens=6))
    call = generate_call(result)
    assert call_matches(lm, call, list(prompt), result.hypotheses[0].ids)
    # What generate() takes as another type, or by its own default.
    for params in (GREEDY.replace(repetition_penalty=2), GREEDY.replace(typical_p=0.0)):
        trace = pg.generate(lm, prompt, params, 4)
        assert call_matches(lm, generate_call(trace), list(prompt), trace.new_ids)
    search = pg.BeamParams(num_beams=3, max_new_tokens=20, stop_at_eos=False)
    result = pg.beam_search(lm, prompt, search)
    assert call_matches(lm, generate_call(result), list(prompt), result.hypotheses[0].ids)


def test_the_call_says_what_it_cant_express(lm, prompt):
    def notes(run, *rest):
        found = generate_call(run, *rest)
        assert all(key in entries() for key, _ in found.notes)
        return [key.removeprefix("proof.note_") for key, _ in found.notes]

    drawn = pg.generate(lm, prompt, NUCLEUS, 4)
    assert notes(drawn) == ["draws"]
    assert "top_k=0" in generate_call(drawn).code  # transformers' own default is 50
    strange = S(
        0.9, presence_penalty=0.2, top_k=5, order=("top_k", "temperature", "presence_penalty")
    )
    assert notes(pg.generate(lm, prompt, strange, 2)) == ["draws", "missing", "order"]
    forced = falsified(drawn, 0, source="forced", u=None)
    assert notes(forced) == ["draws", "forced"]
    contrast = pg.ContrastiveParams()
    assert notes(drawn, None, contrast) == ["no_contrastive"]
    assert generate_call(drawn, None, contrast).code == ""
    groups = pg.BeamParams(num_beams=2, num_groups=2, diversity_penalty=1.0, max_new_tokens=3)
    assert notes(pg.beam_search(lm, prompt, groups)) == ["groups"]
    lookup = pg.PromptLookup()
    run = pg.speculative_decode(lm, lookup, prompt, None, NUCLEUS, 4)
    assert "prompt_lookup_num_tokens=4" in generate_call(run, lookup).code
