"""monitor."""

from __future__ import annotations

from collections import Counter
from enum import Enum
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

import typer

from weft.cli import terminal
from weft.cli.frame import JsonOption, example
from weft.cli.printing import lines, say, say_json
from weft.errors import Refused

DIFFERENT = 1
"""The exit code where a case came out otherwise than expected."""


class MonitoredLanguage(str, Enum):
    """In which language a formula is written."""

    monpoly = "monpoly"
    mutl = "mutl"
    mutl_minmax = "mutl-minmax"
    two_sorted = "2fol"


class _Asked(NamedTuple):
    """What is asked of a run beside its files: the options of ``api.monitoring``."""

    negate: bool = False
    every_point: bool = False
    empty_points: bool = False
    language: Literal["monpoly", "mutl", "mutl-minmax", "2fol"] = "monpoly"
    duplicates: bool = False


def add_to(app: typer.Typer) -> None:
    """Adds the command."""
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
        typer.Option("--formula", metavar="FILE", help="The formula, in the --language; DejaVu's in a .qtl file."),
    ] = None,
    log: Annotated[
        Path | None, typer.Option("--log", metavar="FILE", help="The log, packed (.gz) or not (-: stdin).")
    ] = None,
    cases: Annotated[
        Path | None, typer.Option("--cases", metavar="FILE", help="Many formulas and logs with expected verdicts.")
    ] = None,
    negate: Annotated[bool, typer.Option("--negate", help="Answer the formula's NOT.")] = False,
    every_point: Annotated[
        bool, typer.Option("--every-time-point", help="Print time points without answers, too.")
    ] = False,
    empty_points: Annotated[
        bool,
        typer.Option(
            "--empty-time-points", help="With --every-time-point: also those without an event of the formula."
        ),
    ] = False,
    language: Annotated[
        MonitoredLanguage,
        typer.Option("--language", help="monpoly; mutl or mutl-minmax: µTL; 2fol: time points named."),
    ] = MonitoredLanguage.monpoly,
    duplicates: Annotated[
        bool, typer.Option("--duplicates", help="With 2fol: count how often each answer is one.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Answer a formula of past temporal logic along a log, and print what MonPoly or DejaVu print. Starts no Spark."""
    asked = _Asked(negate, every_point, empty_points, language.value, duplicates)
    if cases is not None:
        if sig or formula or log or asked != _Asked():
            raise Refused("--cases has everything in its file", hint="Leave the other options out.")
        _cases(terminal.path(cases), json)
        return
    _one(formula, log, sig, asked, json)


def _one(formula: Path | None, log: Path | None, sig: Path | None, asked: _Asked, json: bool) -> None:
    if formula is None or log is None:
        raise Refused("a formula and a log are wanted", hint="Give --formula FILE and --log FILE, or --cases FILE.")
    if formula.suffix == ".qtl":
        if sig or asked != _Asked():
            raise Refused("a .qtl file takes no option but --log", hint="Leave the other options out.")
        _violations(terminal.path(formula), _log(log), json)
        return
    if sig is None:
        raise Refused("a signature is wanted", hint="Give --sig FILE, which names the predicates and their types.")
    _verdicts(terminal.path(sig), terminal.path(formula), _log(log), asked, json)


def _log(log: Path) -> Path:
    return log if str(log) == "-" else terminal.path(log)


def _verdicts(sig: Path, formula: Path, log: Path, asked: _Asked, json: bool) -> None:
    from weft.api.monitoring import Options, verdicts

    for line in verdicts(sig, formula, log, Options(**asked._asdict()), _note):
        _line({"verdict": line} if json else line)


def _note(told: str) -> None:
    """On stderr, before the verdicts."""
    say(f"({told})", err=True)


def _violations(formula: Path, log: Path, json: bool) -> None:
    from weft.api.monitoring import violations

    for name, number in violations(formula, log):
        _line({"property": name, "event": number} if json else f"*** Property {name} violated on event number {number}")


def _cases(file: Path, json: bool) -> None:
    from weft.api.monitored_cases import judge_cases

    counts: Counter[str] = Counter()
    for each in judge_cases(file):
        counts[each.outcome] += 1
        if each.outcome == "other":
            _line({"id": each.id, "differs": each.difference} if json else f"{each.id}: {each.difference}")
    total = counts.total()
    if json:
        say_json({"cases": total, **{name: counts[name] for name in ("same", "refused", "other")}}, lines=True)
    else:
        say(
            f"{total} cases: {counts['same']} with the expected verdicts, {counts['refused']} refused as expected, "
            f"{counts['other']} otherwise"
        )
    if counts["other"]:
        raise typer.Exit(DIFFERENT)


def _line(line: object) -> None:
    """A line as it is, at once."""
    if not isinstance(line, str):
        say_json(line, lines=True)
        return
    out = terminal.out()
    out.write(lines(line) + "\n")
    out.flush()
