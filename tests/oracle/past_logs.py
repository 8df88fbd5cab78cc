"""Random logs, and how they are cut into batches."""

from __future__ import annotations

import random
from itertools import pairwise

from oracle.past_grammar import PREDICATES, Tables, rows
from oracle.past_logic import Log

STEPS = (0, 0, 1, 1, 2, 5)
"""How far one state is from the next, microseconds: the same time, near, and beyond most intervals."""


def log(chance: random.Random, states: int, tables: Tables | None = None) -> Log:
    """States of every predicate; some have no row at all."""
    at, now = [], chance.choice([0, 3, 1_000_000])
    given: list[dict[str, list[tuple[int | float | str, ...]]]] = []
    for _ in range(states):
        at.append(now)
        now += chance.choice(STEPS)
        empty = chance.random() < 0.1
        how = tables or Tables()
        given.append({} if empty else {name: rows(chance, name, how) for name in PREDICATES})
    return Log(tuple(at), tuple(given))


def partition(chance: random.Random, states: int) -> tuple[tuple[int, int], ...]:
    """Ranges of time points, one after another, that make up the whole; some are empty, some have one."""
    match chance.randrange(4):
        case 0:
            cuts = list(range(1, states))
        case 1:
            cuts = []
        case _:
            cuts = [chance.randint(0, states) for _ in range(chance.randint(1, 4))]
    bounds = [0, *sorted(cuts), states]
    return tuple(pairwise(bounds))
