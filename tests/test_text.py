"""Text to ids and back: BOS once, chat template, typed special tokens, nothing cleaned up."""

import pytest
from tokenizers.processors import TemplateProcessing

from playground.text import TokenizerText
from tests.tiny import tiny_tokenizer

TEMPLATE = (
    "{% for m in messages %}<s>{{ m['role'] }}\n{{ m['content'] }}</s>\n{% endfor %}"
    "{% if add_generation_prompt %}<s>assistant\n{% endif %}"
)
TEMPLATE_WITHOUT_BOS = "{% for m in messages %}{{ m['content'] }} {% endfor %}"


@pytest.fixture
def plain():
    return TokenizerText(tiny_tokenizer(300, chat_template=TEMPLATE))


@pytest.fixture
def adding():
    """A tokenizer that starts each text with BOS itself, as Llama's do."""
    tokenizer = tiny_tokenizer(300, chat_template=TEMPLATE_WITHOUT_BOS)
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", 0)]
    )
    return TokenizerText(tokenizer)


def test_bos_is_as_the_tokenizer_says_or_as_asked(plain, adding):
    ids = plain.encode("hi")
    assert not plain.adds_bos and 0 not in ids
    assert plain.encode("hi", add_bos=True) == [0, *ids]
    assert plain.encode("hi", add_bos=False) == ids
    assert adding.adds_bos and adding.encode("hi") == [0, *ids]
    assert adding.encode("hi", add_bos=True) == [0, *ids]
    assert adding.encode("hi", add_bos=False) == ids


def test_a_typed_bos_is_not_doubled(plain):
    assert plain.encode("<s>hi", add_bos=True) == plain.encode("hi", add_bos=True)


def test_the_chat_template_has_one_bos_at_the_start(plain, adding):
    with pytest.raises(ValueError, match="whole characters, got half of one at 1"):
        plain.encode("a\ud83d")
    ids = plain.encode("hi", chat=True)
    assert ids[0] == 0 and ids[1] != 0
    assert plain.decode(ids) == "<s>user\nhi</s>\n<s>assistant\n"
    assert plain.encode("hi", chat=True, add_bos=True) == ids
    assert plain.encode("hi", chat=True, add_bos=False) == ids[1:]
    ids = adding.encode("hi", chat=True)
    assert ids[0] == 0 and ids.count(0) == 1


def test_a_chat_has_turns(plain):
    turns = [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "hello"},
        {"role": "user", "content": "bye"},
    ]
    text = plain.decode(plain.encode(chat=turns))
    assert text == (
        "<s>system\nbe brief</s>\n<s>user\nhi</s>\n<s>assistant\nhello</s>\n"
        "<s>user\nbye</s>\n<s>assistant\n"
    )


def test_typed_special_tokens_count_only_where_wanted(plain):
    ids = plain.encode("a</s>b")
    assert ids.count(1) == 1 and len(ids) == 3
    split = plain.encode("a</s>b", special=False)
    assert 1 not in split and plain.decode(split) == "a</s>b"
    chat = plain.encode("a</s>b", chat=True, special=False)
    assert plain.decode(chat) == "<s>user\na</s>b</s>\n<s>assistant\n"
    assert chat.count(1) == 1  # the template's own


@pytest.mark.parametrize(
    "text", ["Hello , world . It 's 3 .5 ?", "  two  spaces ", "\n\n", "", "日本 😃", "a\tb\x00"]
)
def test_text_comes_back_character_for_character(plain, text):
    assert plain.decode(plain.encode(text, special=False)) == text


def test_bos_of_a_tokenizer_without_one_is_refused():
    tokenizer = tiny_tokenizer()
    tokenizer.bos_token = None
    text = TokenizerText(tokenizer)
    assert text.bos_id is None and text.encode("hi")
    with pytest.raises(ValueError, match="add_bos must be False or None"):
        text.encode("hi", add_bos=True)


def test_a_chat_without_a_template_is_refused():
    with pytest.raises(ValueError, match="chat must be off"):
        TokenizerText(tiny_tokenizer()).encode("hi", chat=True)


def test_eos_ids_come_from_the_generation_config_alone():
    class Config:
        eos_token_id = [7, 1]
        temperature = 0.6

    assert TokenizerText(tiny_tokenizer(), Config()).eos_ids == (7, 1)
    assert TokenizerText(tiny_tokenizer()).eos_ids == (1,)


def test_the_default_models_tokens(default_lm):
    """Special tokens typed by a user, and the template whose every turn opens with BOS."""
    assert default_lm.encode("A<|im_end|>B") == [49, 2, 50]
    split = default_lm.encode("A<|im_end|>B", special=False)
    assert 2 not in split and default_lm.decode(split) == "A<|im_end|>B"
    ids = default_lm.encode("Hi", chat=True)
    assert ids[0] == 1 and ids[1] != 1
    assert default_lm.decode(ids).endswith("<|im_start|>assistant\n")
    for text in ("Hello , world . It 's 3 .5 ?", " the", "日本", "😃", "   "):
        assert default_lm.decode(default_lm.encode(text)) == text
    assert default_lm.encode("") == []
