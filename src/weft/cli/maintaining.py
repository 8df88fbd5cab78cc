"""The command ``maintain``."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from weft.cli.frame import HomeOption, JsonOption, example, opened
from weft.cli.printing import echo, print_json, size, table, working
from weft.interruption import stop_here

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weft.execution.compacting import Cleaned, Compacted
    from weft.execution.maintenance import Done, Step

_WORDS = {"build": ("built", "to build"), "merge": ("merged", "to merge"), "delete": ("deleted", "to delete")}


def add_to(app: typer.Typer) -> None:
    """Register the command with ``app``."""
    app.command(epilog=example("weft maintain", "weft maintain --dry-run", "weft maintain --retain 1d"))(maintain)


def maintain(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be done, and change nothing.")] = False,
    retain: Annotated[
        str | None,
        typer.Option(
            metavar="7d", help="How long to retain files that are no longer needed: 0 to 7d. [storage.retention]"
        ),
    ] = None,
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Compact small data files, delete files that are no longer needed, and maintain arrangements."""
    steps: list[Step] = []
    with opened(home) as weft, working("maintaining") as doing:
        for step in weft.maintain(dry_run=dry_run, retain=0 if retain in ("0", "0s") else retain):
            doing(f"maintaining: {step.name}")
            steps.append(step)
            if not (step.action == "compact" or step.action == "clean" or json):
                echo(_arrangement(step, dry_run))
            stop_here()
    if json:
        print_json([asdict(step) for step in steps])
    elif not steps:
        echo("Nothing to do.")
    else:
        _print_files(steps, dry_run)


def describe_step(step: Step) -> str:
    """Describe a step in one line."""
    if step.action == "compact":
        return f"{step.name}: compacted {step.files:,} small files into one; {step.after:,} files now"
    if step.action == "clean":
        return f"{step.name}: deleted {_deleted(step)}"
    return _arrangement(step, dry_run=False)


def _arrangement(step: Done, dry_run: bool) -> str:
    words = _WORDS[step.action]
    how = f"not {words[0]} ({step.problem})" if step.problem else words[dry_run]
    return f"{step.name}: {how}: {step.what}"


def _print_files(steps: Sequence[Step], dry_run: bool) -> None:
    compacted: dict[str, list[Compacted]] = {}
    cleaned: dict[str, Cleaned] = {}
    for step in steps:
        if step.action == "compact":
            compacted.setdefault(step.name, []).append(step)
        elif step.action == "clean":
            cleaned[step.name] = step
    rows = []
    for name in dict.fromkeys([*compacted, *cleaned]):
        own, clean = compacted.get(name), cleaned.get(name)
        rows.append((name, *(_compaction(own) if own else ("", "")), _deleted(clean) if clean else ""))
    if rows:
        table(("", "files", "small files", "to delete" if dry_run else "deleted"), rows)


def _compaction(steps: Sequence[Compacted]) -> tuple[str, str]:
    before, after = size(sum(step.size for step in steps)), [step.new_size for step in steps]
    files = f"{steps[0].before:,} → {steps[-1].after:,}"
    return files, before if None in after else f"{before} → {size(sum(each or 0 for each in after))}"


def _deleted(step: Cleaned) -> str:
    log = f" and {step.log:,} of the log" if step.log else ""
    return f"{step.files:,} file{'s' * (step.files != 1)}{log}, {size(step.size)}"
