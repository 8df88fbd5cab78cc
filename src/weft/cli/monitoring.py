"""The command ``monitor``."""

from __future__ import annotations

from collections import Counter
from enum import Enum
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

import typer

from weft.cli import terminal
from weft.cli.frame import JsonOption, example
from weft.cli.printing import echo, lines, print_json
from weft.errors import Refused

DIFFERENT = 1
"""The exit code for a case with an unexpected outcome."""


class MonitoredLanguage(str, Enum):
    """The language of a formula."""

    monpoly = "monpoly"
    mutl = "mutl"
    mutl_minmax = "mutl-minmax"
    two_sorted = "2fol"


class _RunOptions(NamedTuple):
    negate: bool = False
    every_point: bool = False
    empty_points: bool = False
    language: Literal["monpoly", "mutl", "mutl-minmax", "2fol"] = "monpoly"
    duplicates: bool = False


def add_to(app: typer.Typer) -> None:
    """Register the command with ``app``."""
    app.command(
        epilog=example(
            "weft monitor --sig events.sig --formula policy.mfotl --log events.log",
            "weft monitor --sig events.sig --formula policy.2fol --log events.log --language 2fol --duplicates",
            "weft monitor --formula property.qtl --log events.csv",
            "weft monitor --cases monitor/monpoly/cases.jsonl",
        )
    )(monitor)


def monitor(
    sig: Annotated[
        Path | None, typer.Option("--sig", metavar="FILE", help="The signature: predicates and their types.")
    ] = None,
    formula: Annotated[
        Path | None,
        typer.Option("--formula", metavar="FILE", help="The formula, in the --language; a .qtl file is DejaVu's."),
    ] = None,
    log: Annotated[
        Path | None, typer.Option("--log", metavar="FILE", help="The log; may be gzipped (-: stdin).")
    ] = None,
    cases: Annotated[
        Path | None,
        typer.Option("--cases", metavar="FILE", help="Check many formulas and logs with their expected verdicts."),
    ] = None,
    negate: Annotated[bool, typer.Option("--negate", help="Evaluate the negated formula.")] = False,
    every_point: Annotated[
        bool, typer.Option("--every-time-point", help="Also print time points without answers.")
    ] = False,
    empty_points: Annotated[
        bool,
        typer.Option(
            "--empty-time-points",
            help="With --every-time-point: also print time points without any event of the formula.",
        ),
    ] = False,
    language: Annotated[
        MonitoredLanguage,
        typer.Option("--language", help="monpoly; mutl or mutl-minmax (µTL); 2fol (named time points)."),
    ] = MonitoredLanguage.monpoly,
    duplicates: Annotated[bool, typer.Option("--duplicates", help="With 2fol: count duplicate answers.")] = False,
    json: JsonOption = False,
) -> None:
    """Evaluate a formula of past temporal logic over a log; the output is MonPoly's or DejaVu's. Starts no Spark."""
    options = _RunOptions(negate, every_point, empty_points, language.value, duplicates)
    if cases is not None:
        if sig or formula or log or options != _RunOptions():
            raise Refused("--cases cannot be combined with other options", hint="Omit the other options.")
        _cases(terminal.path(cases), json)
        return
    _one(formula, log, sig, options, json)


def _one(formula: Path | None, log: Path | None, sig: Path | None, options: _RunOptions, json: bool) -> None:
    if formula is None or log is None:
        raise Refused("a formula and a log are required", hint="Add --formula FILE and --log FILE, or --cases FILE.")
    if formula.suffix == ".qtl":
        if sig or options != _RunOptions():
            raise Refused("a .qtl file allows no other option than --log", hint="Omit the other options.")
        _violations(terminal.path(formula), _log(log), json)
        return
    if sig is None:
        raise Refused("a signature is required", hint="Add --sig FILE, which has the predicates and their types.")
    _verdicts(terminal.path(sig), terminal.path(formula), _log(log), options, json)


def _log(log: Path) -> Path:
    return log if str(log) == "-" else terminal.path(log)


def _verdicts(sig: Path, formula: Path, log: Path, options: _RunOptions, json: bool) -> None:
    from weft.api.monitoring import Options, verdicts

    for line in verdicts(sig, formula, log, Options(**options._asdict()), _note):
        _line({"verdict": line} if json else line)


def _note(text: str) -> None:
    echo(f"({text})", err=True)


def _violations(formula: Path, log: Path, json: bool) -> None:
    from weft.api.monitoring import violations

    for name, number in violations(formula, log):
        _line({"property": name, "event": number} if json else f"*** Property {name} violated on event number {number}")


def _cases(file: Path, json: bool) -> None:
    from weft.api.monitoring import judge_cases

    counts: Counter[str] = Counter()
    for each in judge_cases(file):
        counts[each.outcome] += 1
        if each.outcome == "other":
            _line({"id": each.id, "differs": each.difference} if json else f"{each.id}: {each.difference}")
    total = counts.total()
    if json:
        print_json({"cases": total, **{name: counts[name] for name in ("same", "refused", "other")}}, lines=True)
    else:
        echo(
            f"{total} cases: {counts['same']} with the expected verdicts, {counts['refused']} refused as expected, "
            f"{counts['other']} with another outcome"
        )
    if counts["other"]:
        raise typer.Exit(DIFFERENT)


def _line(line: object) -> None:
    if not isinstance(line, str):
        print_json(line, lines=True)
        return
    out = terminal.out()
    out.write(lines(line) + "\n")
    out.flush()
