"""LogitsCache: the logits after recent prefixes, so that a rewind or a slider costs no forward."""

from __future__ import annotations

import threading
from collections import OrderedDict

import numpy as np

Ids = tuple[int, ...]


class LogitsCache:
    """LRU of logits [V] by prefix, bounded in bytes; thread-safe, so that no one waits to look."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.nbytes = 0
        self._rows: OrderedDict[Ids, np.ndarray] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, ids: Ids) -> np.ndarray | None:
        """Return the logits after ids, or None."""
        with self._lock:
            row = self._rows.get(ids)
            if row is not None:
                self._rows.move_to_end(ids)
            return row

    def put(self, ids: Ids, row: np.ndarray) -> None:
        """Keep a row; the oldest ones beyond the bound go."""
        with self._lock:
            old = self._rows.pop(ids, None)
            self.nbytes += row.nbytes - (0 if old is None else old.nbytes)
            self._rows[ids] = row
            while self.nbytes > self.max_bytes and len(self._rows) > 1:
                self.nbytes -= self._rows.popitem(last=False)[1].nbytes

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._rows.clear()
            self.nbytes = 0
