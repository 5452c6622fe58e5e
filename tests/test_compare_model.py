"""The story of the Compare tab on the default model: likely text isn't human text.

First measured on one prompt: mean probability of a token 0.14 in human text, 0.14 in pure sampling,
0.34 with top-p 0.95, 0.70 greedy, 0.74 with four beams. The presets' own prompts must show the same
order and rough sizes.
"""

import pytest

import playground as pg
from playground.compare import Decoder, finish, given, start
from playground.figures import figures
from playground.ui.compare_presets import ELEPHANT, WOODS, WOODS_HUMAN

S = pg.SamplingParams
TOKENS = 51


def measured(lm, text, decoder):
    run = finish(lm, start(decoder, lm.encode(text), TOKENS))
    return figures(run, lm.eos_ids)


@pytest.mark.slow
def test_beams_and_greedy_are_likelier_and_duller_than_people(default_lm):
    lm = default_lm
    human = given(lm, lm.encode(WOODS), lm.encode(" " + WOODS_HUMAN)[:TOKENS])
    human = figures(human)
    greedy = measured(lm, WOODS, Decoder(sampling=S(temperature=0)))
    beam = measured(lm, WOODS, Decoder("beam", beam=pg.BeamParams(num_beams=4)))
    drawn = {}
    for top_p in (1.0, 0.95):
        found = measured(lm, WOODS, Decoder(sampling=S(top_p=top_p, seed=7)))
        drawn[top_p] = found.mean_prob
        assert found.locks is None and found.rep_4 < 0.2
    assert human.mean_prob == pytest.approx(0.2, abs=0.07)
    assert drawn[1.0] == pytest.approx(human.mean_prob, abs=0.12)
    assert drawn[0.95] == pytest.approx(human.mean_prob, abs=0.2)
    assert 0.4 < greedy.mean_prob < beam.mean_prob < 0.8
    assert greedy.logprob < beam.logprob  # the search found the likelier text,
    assert beam.rep_4 > 0.2 > human.rep_4  # which says the same again and again
    assert min(greedy.mean_prob, beam.mean_prob) > 1.3 * max(human.mean_prob, drawn[1.0])


def test_greedy_locks_in_a_loop(default_lm):
    found = measured(default_lm, ELEPHANT, Decoder(sampling=S(temperature=0)))
    assert found.locks is not None and found.locks < 20
    assert found.mean_prob == pytest.approx(0.70, abs=0.1)
    assert found.rep_4 > 0.4
