"""Count the operators and rules that a run exercised.

These are the cases of ``at``, ``starts`` and ``ends`` that returned rows, the decisions of the late rules, the access
paths, the drivers that returned rows, and the constructs of SQL. A rule without a case is not tested, although the laws
pass.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType
from typing import Any, Final

from oracle.laws import Trial
from weft.algebra import relation
from weft.algebra.access import DeltaScan, FullScan, Lookup
from weft.algebra.relation import FALSE, TRUE
from weft.algebra.traverse import params
from weft.derivation import canonical, localize, merge, monotone, normalize, simplify
from weft.derivation.replay import at, ends, starts

Label = Callable[[tuple[Any, ...], Any], "str | None"]
"""Return the names under which a call with these arguments and this result is counted."""

OPERATORS: Final = tuple(
    getattr(relation, name)
    for union in (relation.Relation, relation.Predicate)
    for name in union.split(" | ")
    # ``test_analytic``, ``test_recursion`` and ``test_calendar_conditions`` try these
    if name not in ("Grouped", "Windowed", "Materialized", "Unnest", "Recurrence", "Recursive", "Turns")
)
SILENT: Final = ("starts NowBefore", "starts Plain", "ends NowFrom", "ends Plain", "ends Values")
"""Cases that give no event by their law: being asked is all they do."""


def _always(name: str) -> Label:
    return lambda args, result: name


def _compared(args: tuple[Any, ...], result: Any) -> str | None:
    if result is None:
        return "simplify: time decides nothing"
    known = {TRUE: "simplify: the order of time says true", FALSE: "simplify: the order of time says false"}
    return known.get(result, "simplify: true unless NULL")


def _like(args: tuple[Any, ...], result: Any) -> str | None:
    return None if result is args[0] else f"normalize: LIKE as {result.name}"  # the one rule of the normal form


WATCHED: Final[tuple[tuple[ModuleType, str, Label], ...]] = (
    (merge, "_derived", _always("merge: a derived relation gives way")),
    (merge, "_of_union", _always("merge: a union is taken apart")),
    (merge, "_joined", lambda args, result: "merge: blocks are joined" if len(args[0]) > 1 else None),
    (
        merge,
        "_settled",
        lambda args, result: None if result is args[0] else "merge: a column stands for another input's",
    ),
    (simplify, "_compared", _compared),
    (simplify, "_body", lambda args, result: "simplify: a body can have no row" if result is None else None),
    (
        simplify,
        "_false_if_contradictory",
        lambda args, result: "simplify: a contradiction" if FALSE == result != args[0] else None,
    ),
    (localize, "_domain", _always("localize: a domain")),
    (
        monotone,
        "_latest",
        lambda args, result: "monotone: a start that is never the latest" if len(result) < len(args[0]) else None,
    ),
    (monotone, "_branch", lambda args, result: "monotone: a block that is never true" if result is None else None),
    (canonical, "one_list", lambda args, result: None if result is args[0] else "canonical: a list is one constant"),
    (canonical, "wide_decimals", lambda args, result: None if result is args[0] else "canonical: a wide decimal"),
    (normalize, "_rewritten", _like),
)

CONSTRUCTS: Final = {
    "SQL: derived table": r"(FROM|JOIN|,) \(+(SELECT|WITH)",
    "SQL: names for a derived table's columns": r"\) AS \w+\(",
    "SQL: WITH": r"\bWITH\b",
    "SQL: WITH in a subquery": r"(EXISTS|IN) \(WITH",
    "SQL: VALUES": r"VALUES",
    "SQL: VALUES as an arm": r"(UNION|ALL|EXCEPT|INTERSECT) VALUES",
    "SQL: UNION ALL": r"UNION ALL",
    "SQL: UNION": r"UNION (?!ALL)",
    "SQL: INTERSECT": r"INTERSECT",
    "SQL: EXCEPT": r"EXCEPT",
    "SQL: LEFT SEMI JOIN": r"SEMI JOIN",
    "SQL: LEFT ANTI JOIN": r"ANTI JOIN",
    "SQL: JOIN USING": r"(?<!SEMI )(?<!ANTI )JOIN [^()]* USING",
    "SQL: SEMI or ANTI JOIN USING": r"(SEMI|ANTI) JOIN [^()]* USING",
    "SQL: NOT EXISTS": r"NOT EXISTS",
    "SQL: IN (SELECT …)": r"(?<!NOT )IN \(SELECT",
    "SQL: NOT IN (SELECT …)": r"NOT IN \(SELECT",
}  # fmt: skip
NESTED: Final = ("SQL: set operation in EXISTS or IN", "SQL: NOW in a derived table or CTE")
PATHS: Final = (
    "access: news by arrival",
    "access: news by another column",
    "access: look-up",
    "access: look-up in a second step",
    "access: full scan",
)
DRIVERS: Final = (
    "rows by arrival", "rows by arrival in EXISTS", "rows by arrival in NOT EXISTS",
    "rows by departure in NOT EXISTS", "rows by now_from", "rows by now_from in EXISTS",
    "rows by now_before in NOT EXISTS", "rows by beginning", "rows by beginning in EXISTS",
)  # fmt: skip
RULES: Final = (
    *(f"{case} {kind.__name__}" for case in ("at", "starts", "ends") for kind in OPERATORS),
    "merge: a derived relation gives way", "merge: a union is taken apart", "merge: blocks are joined",
    "merge: a union makes several branches", "merge: a column stands for another input's",
    "simplify: the order of time says true", "simplify: the order of time says false", "simplify: true unless NULL",
    "simplify: time decides nothing", "simplify: a body can have no row", "simplify: a contradiction",
    "localize: a domain",
    "monotone: closed form", "monotone: rows can end", "monotone: NOT EXISTS ends", "monotone: too many blocks",
    "monotone: a start that is never the latest", "monotone: a block that is never true",
    "canonical: a list is one constant", "canonical: a wide decimal",
    "normalize: LIKE as =", "normalize: LIKE as startswith", "normalize: LIKE as endswith",
    "normalize: LIKE as contains",
    *(f"lift: {kind}" for kind in ("INT", "STRING", "TIMESTAMP", "INTERVAL", "ARRAY", "DECIMAL")),
    *PATHS, *DRIVERS, *CONSTRUCTS, *NESTED,
)  # fmt: skip


class Fired:
    """Counts, by name of the rule."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Every call of a watched function counts until the end of the block."""
        kept: list[Callable[[], object]] = []
        for function, case in ((at, "at"), (starts, "starts"), (ends, "ends")):
            for kind in OPERATORS:
                original = function.dispatch(kind)
                function.register(kind, self._counted(original, self._of_case(f"{case} {kind.__name__}")))
                kept.append(lambda f=function, k=kind, o=original: f.register(k, o))  # type: ignore[misc]
        for module, name, label in WATCHED:
            original = getattr(module, name)
            setattr(module, name, self._counted(original, label))
            kept.append(lambda m=module, n=name, o=original: setattr(m, n, o))  # type: ignore[misc]
        try:
            yield
        finally:
            for restore in kept:
                restore()

    @staticmethod
    def _of_case(name: str) -> Label:
        return lambda args, result: name if result or name in SILENT else None

    def _counted(self, original: Callable[..., Any], label: Label) -> Callable[..., Any]:
        def counted(*args: Any) -> Any:
            result = original(*args)
            found = label(args, result)
            if found is not None:
                self.counts[found] += 1
            return result

        return counted

    def note(self, trial: Trial) -> None:
        """Count the properties of a trial's plan, and the branches that returned rows."""
        shape = trial.standing.shape
        found = {name for name, pattern in CONSTRUCTS.items() if re.search(pattern, trial.case.text.spark)}
        found |= set(nested(trial.case.text.spark))
        found |= {f"lift: {param.type.name}" for param in params(shape.lifted)}
        found.add(_verdict(shape.verdict.reason, shape.verdict.closed))
        found |= set(map(_path, trial.paths))
        drivers = [(event.driver.kind, event.driver.scan, event.driver.inside) for event in shape.branches]
        if len(set(drivers)) < len(drivers):
            found.add("merge: a union makes several branches")
        for number in trial.gave:
            kind, _, inside = drivers[number]
            within = "" if not inside else " in NOT EXISTS" if "NOT EXISTS" in inside else " in EXISTS"
            found.add(f"rows by {kind}{within}")
        self.counts.update(found)


def nested(text: str) -> Iterator[str]:
    """What is inside of what: parentheses are those of a subquery, of a derived table (WITH's, too), or neither.

    >>> list(nested("SELECT 1 FROM (SELECT k FROM m WHERE NOW() > ts) AS d"))
    ['SQL: NOW in a derived table or CTE']
    """
    tokens = re.findall(r"\w+|[()]", text)
    around: list[str] = []
    for before, token, after in zip(["", *tokens], tokens, [*tokens[1:], ""], strict=False):
        if token == "(":
            query = after in ("SELECT", "WITH")
            around.append("subquery" if query and before in ("EXISTS", "IN") else "derived" if query else "")
        elif token == ")":
            around.pop()
        elif token in ("UNION", "EXCEPT", "INTERSECT") and around and around[-1] == "subquery":
            yield NESTED[0]
        elif token in ("NOW", "CURRENT_TIMESTAMP") and "derived" in around:
            yield NESTED[1]


def _verdict(reason: str, closed: bool) -> str:
    if closed:
        return "monotone: closed form"
    words = {"rows can end": "rows can end", "NOT EXISTS": "NOT EXISTS ends", "blocks": "too many blocks"}
    return f"monotone: {next(name for word, name in words.items() if word in reason)}"


def _path(path: DeltaScan | FullScan | Lookup) -> str:
    match path:
        case DeltaScan(column=column):
            return "access: news by arrival" if column == "ts" else "access: news by another column"
        case Lookup():
            return "access: look-up" if path.step == 1 else "access: look-up in a second step"
        case FullScan():
            return "access: full scan"


def shown(counts: Mapping[str, int]) -> str:
    """The counts as a table, rules in their order, then the rest."""
    names = [*RULES, *sorted(counts.keys() - set(RULES))]
    return "\n".join(f"{counts.get(name, 0):>9,}  {name}" for name in names)
