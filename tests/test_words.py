"""Every visible string in both languages: none missing, none unused, fields alike."""

import re
import string

import pytest

from playground.words import ASSETS, LANGUAGES, entries, translator

SOURCES = [*ASSETS.parent.glob("playground/**/*.py"), *ASSETS.glob("js/*.js")]
# Areas whose keys are put together at run time: each prefix with where it happens.
BUILT = re.compile(
    r"^(refusals\.|components\.(strip|source|tool|key|share|take)_"
    r"|controls\.|reasons\.|page\.(bos|order|preset|model_(here|to_fetch|not_reachable)|more_filters|penalties|rules)"
    r"|sample\.(stage|trajectory|figure|flip|sentence|dice|bars)_"
    r"|compare\.col_|read\.figure_)"
)


def fields(text):
    return {name for _, name, _, _ in string.Formatter().parse(text) if name}


@pytest.mark.parametrize("key", entries())
def test_both_languages_have_it_with_the_same_fields(key):
    texts = entries()[key]
    assert set(texts) == set(LANGUAGES)
    assert all(isinstance(text, str) and text.strip() for text in texts.values())
    assert fields(texts["en"]) == fields(texts["zh"])


def test_every_key_that_the_code_names_is_there():
    used = set()
    for path in SOURCES:
        text = path.read_text("utf-8")
        if path.suffix == ".js":
            used |= {f"components.{k}" for k in re.findall(r'dp\.word\("(\w+)"\)', text)}
        else:
            used |= set(re.findall(r'\bt\(\s*"([a-z]+\.\w+)"', text))
            used |= set(
                re.findall(r'(?:labels\.|\b)add\((?:.|\n)*?"((?:page|controls)\.\w+)"', text)
            )
    missing = {key for key in used if key not in entries()}
    assert used and not missing


def test_no_key_is_left_over():
    code = "\n".join(path.read_text("utf-8") for path in SOURCES)
    unused = []
    for key in entries():
        area, _, name = key.partition(".")
        if BUILT.match(key) or key in code or f'"{name}"' in code or f"'{name}'" in code:
            continue
        base = name.removesuffix("_info")
        if name.endswith("_info") and f"{area}.{base}" in code:
            continue
        unused.append(key)
    assert not unused


def test_an_unknown_language_or_key_is_refused():
    with pytest.raises(ValueError, match="language must be one of en, zh, got 'fr'"):
        translator("fr")
    with pytest.raises(KeyError):
        translator("en")("page.nonsense")
