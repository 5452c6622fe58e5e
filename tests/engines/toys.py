"""Toy tables that speculation is tested on."""

import itertools

import numpy as np

import playground as pg

GREEDY = pg.SamplingParams(temperature=0)


def certain(size, *path, **more):
    """Return a toy that walks the path: each id is followed by the next with certainty."""
    rows = {None: np.eye(size)[path[0]]}
    for here, there in itertools.pairwise(path):
        rows[here] = np.eye(size)[there]
    return pg.TableLM(rows, vocab_size=size, **more)


def random_table(seed, size=6, **more):
    rng = np.random.default_rng(seed)
    rows = rng.dirichlet(np.full(size, 0.7), size=size + 1)
    return pg.TableLM({None: rows[size], **{i: rows[i] for i in range(size)}}, **more)


def near_table(seed, size=6, share=0.7, **more):
    """Return a draft for ``random_table(seed)`` that agrees with it to some extent."""
    rng = np.random.default_rng(seed)
    rows = rng.dirichlet(np.full(size, 0.7), size=size + 1)
    rows = share * rows + (1 - share) * rng.dirichlet(np.full(size, 0.7), size=size + 1)
    return pg.TableLM({None: rows[size], **{i: rows[i] for i in range(size)}}, **more)


def shares(parts, table):
    """Return a toy whose rows are counts out of ``parts``."""
    return pg.TableLM({key: np.array(row) / parts for key, row in table.items()})
