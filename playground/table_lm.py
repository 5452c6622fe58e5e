"""TableLM: a toy language model for tests, lessons and proofs.

A table from the last token to the next token's probabilities (a Markov chain). It follows the
LanguageModel protocol exactly, knows no torch and no transformers, and counts its forwards.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from playground.language_model import check_ids


class TableLM:
    """Toy model: ``table[last_token]`` holds the next token's probabilities [V].

    The key None is the empty prefix; it also serves any token that has no row of its own. Rows
    must be non-negative and sum to 1 (1e-6). ``vocab_size`` defaults to the rows' length; shorter
    rows are padded with probability 0; columns
    beyond ``vocab_size`` play a padded output layer and are cut off. ``eos_ids`` end runs. Logits
    are ln(p), -inf for 0.
    """

    def __init__(
        self,
        table: Mapping[int | None, Sequence[float]],
        eos_ids: Sequence[int] = (),
        vocab_size: int | None = None,
        context_length: int | None = None,
        name: str = "table",
        bos_id: int | None = None,
    ) -> None:
        if not table:
            raise ValueError("table must have at least one row, got none")
        width = max(len(row) for row in table.values())
        self.vocab_size = width if vocab_size is None else vocab_size
        self.eos_ids = tuple(eos_ids)
        self.bos_id = bos_id
        self.context_length = context_length
        self.name = name
        self.device = "cpu"
        self.dtype = "float32"
        self.forwards = 0
        self._rows = {key: self._row(key, row) for key, row in table.items()}

    def _row(self, key: int | None, row: Sequence[float]) -> np.ndarray:
        p = np.zeros(max(self.vocab_size, len(row)), np.float64)
        p[: len(row)] = row
        if not (p >= 0).all() or abs(p.sum() - 1) > 1e-6:
            raise ValueError(
                f"table row {key} must be probabilities that sum to 1, got {list(row)}"
            )
        # Columns beyond vocab_size are a padded output layer: cut off, never candidates.
        with np.errstate(divide="ignore"):
            return np.log(p[: self.vocab_size]).astype(np.float32)

    def _after(self, prefix: Sequence[int]) -> np.ndarray:
        key = prefix[-1] if prefix else None
        if key not in self._rows and None not in self._rows:
            raise ValueError(f"the table has no row for token {key}")
        return self._rows.get(key, self._rows.get(None))

    def logits(self, ids: Sequence[int], last: int = 1) -> np.ndarray:
        """Return float32 [last, V]; empty ids are allowed (``last`` 1)."""
        return self.logits_many([ids], last)[0]

    def logits_many(self, prefixes: Sequence[Sequence[int]], last: int = 1) -> np.ndarray:
        """Return float32 [B, last, V]."""
        rows = []
        for prefix in prefixes:
            ids = check_ids(self, prefix, last)
            rows.append([self._after(ids[: len(ids) - back]) for back in range(last - 1, -1, -1)])
        self.forwards += 1
        return np.array(rows, np.float32)

    def encode(self, text: str) -> list[int]:
        """Return the ids in a text such as "0 3 1"."""
        return [int(word) for word in text.split()]

    def decode(self, ids: Sequence[int]) -> str:
        """Return the ids as words."""
        return " ".join(str(i) for i in ids)

    def label(self, token_id: int) -> str:
        """Return the id as a word."""
        return str(int(token_id))
