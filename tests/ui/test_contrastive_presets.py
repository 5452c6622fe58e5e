"""The Contrast tab's presets on the default model: each shows what it says."""

import numpy as np
import pytest

import playground as pg
from playground.engines.contrastive import contrastive_decode
from playground.models import views
from playground.records.contrastive import ContrastiveParams
from playground.repeats import longest_repeat, rep
from playground.ui import contrastive_moves as moves
from playground.ui import contrastive_screen as screen
from playground.ui.contrastive_controls import EXIT_AT, KINDS, preset_of
from playground.ui.second_models import DISTILLED, Second, SecondModels
from tests.ui.test_contrastive import GREEDY, PARAMS, T, begin, go


def play(default_lm, name, count=None):
    preset = preset_of(name)
    second = SecondModels(KINDS, EXIT_AT).default(default_lm, preset.kind)
    amateur, contest = begin(default_lm, second, preset.prompt)
    params = ContrastiveParams(preset.plausibility, preset.amateur_weight)
    return go(default_lm, amateur, contest, count or preset.length, params), params, amateur


def takes(default_lm, name, text):
    """Whether expert and contrast would take each token of a text after the tokens before it.

    One forward over the whole text for each model, instead of one for each token.
    """
    preset = preset_of(name)
    new = default_lm.encode(text)
    ids = [*default_lm.encode(preset.prompt), *new]
    seconds = SecondModels(KINDS, EXIT_AT)
    amateur = seconds.get(default_lm, seconds.default(default_lm, preset.kind))
    params = ContrastiveParams(preset.plausibility, preset.amateur_weight)
    expert, weak = (lm.logits(ids[:-1], last=len(new)) for lm in (default_lm, amateur))
    winners = [pg.contrast(x, y, params).winner for x, y in zip(expert, weak, strict=True)]
    return expert.argmax(-1).tolist() == new, winners == new


KING_EXPERT = (
    ' "I am the queen of the castle, and I will not be defeated by you. I will not be defeated'
    ' by you."\n\nThe king replied: "I will not be defeated by you'
)
KING_CONTRAST = (
    " 'May her Majesty remain unscathed.' She smiled to herself, as she stepped onto the balcony to"
    " greet her queen, Queen Elizabeth II, who had just arrived at Buckingham Palace,"
)


def test_the_expert_repeats_itself_where_the_contrast_does_not(default_lm):
    assert takes(default_lm, "king", KING_EXPERT) == (True, False)
    assert takes(default_lm, "king", KING_CONTRAST) == (False, True)
    expert, ours = default_lm.encode(KING_EXPERT), default_lm.encode(KING_CONTRAST)
    assert longest_repeat(expert)[2] >= 7 and rep(expert, 4) > 0.15
    assert longest_repeat(ours)[2] <= 2 and rep(ours, 4) == 0 and len(ours) > 30


@pytest.mark.skipif(not views.STUDENT.is_file(), reason="the student isn't shipped yet")
def test_the_contrast_with_the_student_is_neithers_own_text(default_lm):
    ids = default_lm.encode(preset_of("student").prompt)
    student = SecondModels(KINDS, EXIT_AT).get(default_lm, Second(DISTILLED))
    ours = contrastive_decode(default_lm, student, ids, PARAMS, GREEDY, 4)
    texts = [pg.generate(lm, ids, GREEDY, 4).new_ids for lm in (default_lm, student)]
    assert len({ours.new_ids, *texts}) == 3
    first = ours.new_ids[0]
    assert first not in [text[0] for text in texts]
    chances = [np.exp(lm.logits(ids)[-1].astype(np.float64)) for lm in (default_lm, student)]
    expert, amateur = (chance[first] / chance.sum() for chance in chances)
    assert expert > 3 * amateur


@pytest.mark.parametrize(
    ("name", "expert", "ours"),
    [
        ("oven", " tray of ingredients. He carefully", " skewer of caramel from its rack."),
        ("learn", " to start with the basics.", " by doing. Embrace the process of exploration"),
        ("unicorns", " a remote island.", " Antarctica. They say these unicorns were trapped"),
    ],
)
def test_the_contrast_names_what_the_expert_leaves_open(default_lm, name, expert, ours):
    assert takes(default_lm, name, expert) == (True, False)
    assert takes(default_lm, name, ours) == (False, True)


def test_without_plausibility_the_absurd_wins(default_lm):
    contest, params, amateur = play(default_lm, "absurd", 1)
    start = moves.start(contest.setup)
    both = moves.position(default_lm, amateur, start, params, GREEDY)
    assert both.winner == contest.new_ids[0]
    assert both.expert_logprobs[both.winner] < both.expert_logprobs.max() - 6
    assert "absurd" in screen.sentence(default_lm, start, both, T)[0]
    kept = moves.position(default_lm, amateur, start, params.replace(plausibility=0.1), GREEDY)
    assert not kept.plausible[both.winner]
