"""The interpreter of past logic gives the verdicts that the authors of MonPoly and DejaVu publish (``monitor/``).

A few lines of this module read the logs and the verdicts. Only the formula is parsed by Weft.
"""

from __future__ import annotations

import gzip
import json
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from oracle.past_logic import Log, Row, Value, evaluated
from weft.algebra.formula import free_variables
from weft.algebra.schema import DataType
from weft.formula.dejavu.violations import properties
from weft.formula.parse_formula import ParsedFormula, reading
from weft.formula.signature import Signature, signature

TOKEN = re.compile(r'@\d+|[\w?]+(?=\s*[(@\s]|$)|\((?:"[^"]*"|[^)"])*\)')
CASES = 160
"""The past-only cases with verdicts."""


@pytest.fixture(scope="module")
def cases(data: Path) -> list[dict[str, Any]]:
    """The past-only cases that have verdicts, with the folder of their files."""
    folder = data / "monitor"
    if not folder.is_dir():
        pytest.skip(f"NO PUBLISHED VERDICTS: {folder} is not there; set WEFT_DATA to the folder that has monitor/")
    found = map(json.loads, (folder / "monpoly" / "cases.jsonl").read_text().splitlines())
    return [{**each, "folder": folder} for each in found if each["past_only"] and each["verdicts"]]


def typed(text: str, type: str) -> Value:
    """A value as written in a log or a verdict."""
    text = text.strip()
    if type == "STRING":
        return text[1:-1] if text.startswith('"') else text
    return int(text) if type == "BIGINT" else float(text)


def values(text: str) -> list[str]:
    """The parts of ``(a,"b,c",1)``."""
    return re.findall(r'"[^"]*"|[^,()"]+', text[1:-1])


def log_of(text: str, known: Signature) -> Log:
    """The states of a log of MonPoly."""
    types = {name: [each.name for each in predicate.types] for name, predicate in known.items()}
    at: list[int] = []
    states: list[dict[str, list[Row]]] = []
    name = ""
    for token in TOKEN.findall(re.sub(r"#.*", "", text)):
        if token.startswith("@"):
            at.append(int(token[1:]))
            states.append({})
        elif token.startswith("("):
            row = tuple(typed(*each) for each in zip(values(token), types[name], strict=True))
            states[-1].setdefault(name, []).append(row)
        else:
            name = token
    return Log(tuple(each * 1_000_000 for each in at), tuple(states))


def verdicts(case: dict[str, Any], read: ParsedFormula) -> Iterator[tuple[int, set[Row]]]:
    for each in case["verdicts"]:
        if each["result"] in ("true", "false"):
            yield each["tp"], {()} if each["result"] == "true" else set()
        else:
            rows = re.findall(r'\((?:"[^"]*"|[^()"])+\)', each["result"])
            types = [variable.type.name for variable in read.columns]
            yield each["tp"], {tuple(typed(*pair) for pair in zip(values(row), types, strict=True)) for row in rows}


def answers(read: ParsedFormula, log: Log) -> Iterator[set[Row]]:
    """The rows at each time point, columns in MonPoly's order, floats in the six digits that it prints."""
    order = [free_variables(read.formula).index(variable) for variable in read.columns]
    for rows in evaluated(read.formula, log, "set"):
        yield {tuple(_printed(row[place]) for place in order) for row in rows}


def _printed(value: Value) -> Value:
    return float(f"{value:g}") if isinstance(value, float) and math.isfinite(value) else value


def test_published_verdicts(cases: list[dict[str, Any]]) -> None:
    tried, wrong = 0, []
    for case in cases:
        known = signature((case["folder"] / case["sig"]).read_text())
        read = reading(case["formula"], known)
        log = log_of((case["folder"] / case["log"]).read_text(), known)
        wanted = dict(verdicts(case, read))
        if any("Division_by_zero" in line for line in case["output"]):
            log = log.until(max(wanted) + 1)
        found = {tp: rows for tp, rows in enumerate(answers(read, log)) if rows}
        differing = [tp for tp in found.keys() | wanted.keys() if found.get(tp, set()) != wanted.get(tp, set())]
        if differing:
            tp = min(differing)
            wrong.append(f"{case['id']} at {tp}: {case['formula']}\n{found.get(tp)} instead of {wanted.get(tp)}")
        tried += 1
    assert tried == CASES
    assert not wrong, "\n".join(wrong)


DEJAVU_CASES = 103
"""Those whose logs have at most a thousand events: the interpreter looks at the whole prefix each time."""


def dejavu_log(path: Path, events: Mapping[str, tuple[DataType, ...]], *, timed: bool) -> Log:
    """One event a state, as DejaVu has it; its time is the last value of a timed log, in seconds."""
    text = gzip.decompress(path.read_bytes()).decode() if path.suffix == ".gz" else path.read_text()
    at: list[int] = []
    states: list[dict[str, list[Row]]] = []
    for line in filter(None, map(str.strip, text.splitlines())):
        name, *given = (each.strip() for each in line.split(","))
        at.append(int(given.pop()) * 1_000_000 if timed else 0)
        types = events.get(name)
        rows = [] if types is None else [tuple(map(typed, given, (each.name for each in types)))]
        states.append({name: rows})
    return Log(tuple(at), tuple(states))


@pytest.mark.timeout(300)
def test_published_violations_of_dejavu(data: Path) -> None:
    folder = data / "monitor"
    if not folder.is_dir():
        pytest.skip(f"NO PUBLISHED VERDICTS: {folder} is not there; set WEFT_DATA to the folder that has monitor/")
    tried, wrong = 0, []
    for case in map(json.loads, (folder / "dejavu" / "cases.jsonl").read_text().splitlines()):
        if case["events"] > 1_000:
            continue
        spec = properties((folder / case["spec"]).read_text())
        log = dejavu_log(folder / case["log"], spec.events, timed=case["timed"])
        violated = [
            tp for each in spec.properties for tp, rows in enumerate(evaluated(each.violated, log, "set")) if rows
        ]
        if sorted({tp + 1 for tp in violated}) != sorted(set(case["violations"])):
            wrong.append(f"{case['id']}: {violated} instead of {case['violations']}")
        tried += 1
    assert tried == DEJAVU_CASES
    assert not wrong, "\n".join(wrong)
