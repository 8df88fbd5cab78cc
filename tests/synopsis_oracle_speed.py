"""Compare the events per second of the literal oracle and of a synopsis, on the log of ``weft bench synopses``.

python tests/synopsis_oracle_speed.py        prints a line of JSON per formula and length of the log

At every time point, the oracle reads the whole prefix of the log in memory. The time per event therefore grows with the
log, so the logs are short. Both must give the same answers.
"""

from __future__ import annotations

import json
import time
from collections import Counter

from oracle.past_logic import SEMANTICS, Log, Meaning
from weft.bench import synopses
from weft.derivation.synopsis.construct import synopsis
from weft.execution.synopsis.batch import EMPTY, StateBatch
from weft.execution.synopsis.evaluating import evaluate
from weft.formula.parse_formula import reading
from weft.formula.signature import signature

LENGTHS = (100, 200, 400)


def as_oracle(batch: StateBatch) -> Log:
    """Return a batch in the format of the oracle."""
    states: list[dict[str, list[tuple[object, ...]]]] = [{} for _ in range(batch.points.num_rows)]
    for name, rows in batch.events.items():
        for row in rows.to_pylist():
            states[row["tp"]].setdefault(name, []).append((row["c1"], row["c2"]))
    return Log(tuple(batch.points.column("at").to_pylist()), tuple(states))


def measured(text: str, length: int) -> dict[str, float]:
    """Return the events per second of processor time, for the oracle and for a synopsis that reads one batch."""
    log = synopses.EventLog.generated(length)
    formula, batch = reading(text, signature(synopses.SIGNATURE)).formula, log.batch(0, length)
    meaning = Meaning(formula, as_oracle(batch), SEMANTICS["set"])
    before = time.process_time()
    expected = Counter((tp, *row) for tp in range(length) for row in meaning.rows(tp))
    oracle = time.process_time() - before
    made = synopsis(formula, "set")
    before = time.process_time()
    _, answers = evaluate(made, EMPTY, batch)
    taken = time.process_time() - before
    assert expected == Counter(zip(*(column.to_pylist() for column in answers.columns), strict=True))
    return {"oracle_rate": round(length / oracle), "synopsis_rate": round(length / taken)}


if __name__ == "__main__":
    for name, text in synopses.FORMULAS.items():
        for length in LENGTHS:
            print(json.dumps({"formula": name, "events": length, **measured(text, length)}))
