"""Every decoding method runs offline and never runs code that comes with a model."""

import transformers.dynamic_module_utils as dynamic

import playground as pg
from tests.tiny import save_tiny

OWN = {"AutoConfig": "code.OwnConfig", "AutoModelForCausalLM": "code.OwnForCausalLM"}


def test_all_methods_run_offline_and_without_foreign_code(tmp_path, cut_network, monkeypatch):
    folder = save_tiny(tmp_path / "tiny", auto_map=OWN)
    ran = tmp_path / "ran"
    (folder / "code.py").write_text(f"open({str(ran)!r}, 'w').close()\nraise SystemExit\n")

    def refuse(*args, **_):
        raise AssertionError(f"asked for foreign code: {args}")

    monkeypatch.setattr(dynamic, "get_class_from_dynamic_module", refuse)
    monkeypatch.setattr(dynamic, "get_cached_module_file", refuse)
    attempts = cut_network()
    lm, twin = pg.load_model(str(folder)), pg.load_model(str(folder))
    ids = lm.encode("hello")
    greedy, hot = pg.SamplingParams(temperature=0), pg.SamplingParams(0.9, top_p=0.9, seed=2)
    plain = pg.generate(lm, ids, greedy, 8, stop_at_eos=False).new_ids
    assert len(pg.generate(lm, ids, hot, 8, stop_at_eos=False).new_ids) == 8
    assert pg.beam_search(lm, ids, pg.BeamParams(num_beams=3, max_new_tokens=8)).hypotheses
    weak = [twin, pg.amateur_of(lm, "short-context"), pg.amateur_of(lm, "early-exit")]
    for amateur in weak:
        alone = pg.ContrastiveParams(amateur_weight=0)
        trace = pg.contrastive_decode(lm, amateur, ids, alone, greedy, 8, stop_at_eos=False)
        assert trace.new_ids == plain
        trace = pg.contrastive_decode(lm, amateur, ids, pg.ContrastiveParams(), hot, 8)
        assert trace.new_ids
    for draft in [*weak, pg.PromptLookup()]:
        found = pg.speculative_decode(lm, draft, ids, pg.SpeculativeParams(3), greedy, 8)
        assert found.ids == plain[: len(found.ids)] and found.ids
    assert not attempts and not ran.exists()
