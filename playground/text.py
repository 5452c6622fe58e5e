"""Text to ids and back, for a transformers tokenizer: BOS, chat template, typed special tokens.

The ids are the truth; text is only ever a view of them. Nothing is cleaned up or stripped.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from playground.vocabulary import Vocabulary

Message = dict[str, str]


class TokenizerText:
    """The text half of a model: encode, decode, labels.

    ``eos_ids`` are as the model's generation config says (else the tokenizer's); nothing else of
    that config is used. ``tokenizer_size`` is the highest id + 1.
    """

    def __init__(self, tokenizer: Any, generation_config: Any = None) -> None:
        self.tokenizer = tokenizer
        self.tokenizer_size = max(tokenizer.get_vocab().values()) + 1
        eos = getattr(generation_config, "eos_token_id", None)
        if eos is None:
            eos = tokenizer.eos_token_id
        eos = [] if eos is None else eos if isinstance(eos, list | tuple) else [eos]
        self.eos_ids = tuple(int(i) for i in eos)
        self.bos_id: int | None = tokenizer.bos_token_id

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """Labels and bytes of all tokens."""
        return Vocabulary.from_tokenizer(self.tokenizer)

    @cached_property
    def token_strings(self) -> tuple[str, ...]:
        """The tokenizer's raw token strings by id ("" for gaps): what tells vocabularies apart."""
        names = self.tokenizer.convert_ids_to_tokens(list(range(self.tokenizer_size)))
        return tuple("" if name is None else name for name in names)

    @cached_property
    def adds_bos(self) -> bool:
        """Whether the tokenizer itself starts a text with BOS."""
        return self.bos_id is not None and self.tokenizer("a")["input_ids"][:1] == [self.bos_id]

    @property
    def has_chat_template(self) -> bool:
        """Whether the tokenizer comes with a chat template."""
        return bool(self.tokenizer.chat_template)

    def encode(
        self,
        text: str = "",
        *,
        add_bos: bool | None = None,
        chat: Sequence[Message] | bool = False,
        special: bool = True,
    ) -> list[int]:
        """Return the ids of a text, or of a chat.

        ``add_bos`` None does as the tokenizer does; True or False give exactly one or no BOS at
        the start. ``chat`` is a list of messages ({"role", "content"}), or True for ``text`` as
        one user message; the template ends where the assistant's answer begins. ``special`` False
        reads typed special tokens, such as ``<|im_end|>``, as plain text.
        """
        if chat:
            ids = self._encode_chat(text if chat is True else chat, special)
        else:
            ids = self._plain(text, special)
        if self.bos_id is None:
            if add_bos:
                raise ValueError(
                    "add_bos must be False or None for a tokenizer without BOS, got True"
                )
            return ids
        want = self.adds_bos if add_bos is None and not chat else add_bos
        if chat and want is None:
            want = self.adds_bos or ids[:1] == [self.bos_id]
        starts = ids[:1] == [self.bos_id]
        if want and not starts:
            return [self.bos_id, *ids]
        if want is False and starts and (chat or add_bos is False):
            return ids[1:]
        return ids

    def _plain(self, text: str, special: bool) -> list[int]:
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise ValueError(
                f"text must be whole characters, got half of one at {error.start}"
            ) from None
        out = self.tokenizer(text, add_special_tokens=False, split_special_tokens=not special)
        return list(out["input_ids"])

    def _encode_chat(self, chat: str | Sequence[Message], special: bool) -> list[int]:
        if not self.has_chat_template:
            raise ValueError("chat must be off for a tokenizer without a chat template, got on")
        messages = [{"role": "user", "content": chat}] if isinstance(chat, str) else list(chat)
        if special:
            text = self._template(messages)
            return self._plain(text, True)
        # The template's own special tokens count, those typed inside a message don't: the content
        # is marked, and the text is encoded piece by piece.
        marks = [f"\x00{i}\x00" for i in range(len(messages))]
        text = self._template(
            [{**m, "content": mark} for m, mark in zip(messages, marks, strict=True)]
        )
        ids: list[int] = []
        for mark, message in zip(marks, messages, strict=True):
            before, found, text = text.partition(mark)
            ids += self._plain(before, True)
            if found:
                ids += self._plain(message["content"], False)
        return ids + self._plain(text, True)

    def _template(self, messages: list[Message]) -> str:
        return self.tokenizer.apply_chat_template(
            messages, tokenize=False, add_generation_prompt=True
        )

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of the ids, character for character, special tokens by their names."""
        return self.tokenizer.decode(
            list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False
        )

    def label(self, token_id: int) -> str:
        """Return a visible label of one token, unique within the vocabulary."""
        return self.vocabulary.label(token_id)
