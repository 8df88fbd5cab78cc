"""maintain."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from weft.cli.frame import HomeOption, JsonOption, example, opened
from weft.cli.printing import say, say_json, size, table, working
from weft.interruption import stop_here

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weft.execution.compacting import Cleaned, Compacted
    from weft.execution.maintenance import Done, Step

_WORDS = {"build": ("built", "to build"), "merge": ("merged", "to merge"), "delete": ("deleted", "to delete")}


def add_to(app: typer.Typer) -> None:
    """Adds the commands."""
    app.command(epilog=example("weft maintain", "weft maintain --dry-run", "weft maintain --retain 1d"))(maintain)


def maintain(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")] = False,
    retain: Annotated[
        str, typer.Option(metavar="7d", help="How long to keep files that nobody needs any more: 0 to 7d.")
    ] = "7d",
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Make small data files one, delete what nobody needs any more, and keep arrangements in order."""
    found: list[Step] = []
    with opened(home) as weft, working("maintaining") as doing:
        for step in weft.maintain(dry_run=dry_run, retain=0 if retain.strip() in ("0", "0s") else retain):
            doing(f"maintaining: {step.name}")
            found.append(step)
            if not (step.action == "compact" or step.action == "clean" or json):
                say(_arrangement(step, dry_run))
            stop_here()
    if json:
        say_json([asdict(step) for step in found])
    elif not found:
        say("There is nothing to do.")
    else:
        _tell_files(found, dry_run)


def in_short(step: Step) -> str:
    """One step in a line."""
    if step.action == "compact":
        return f"{step.name}: {step.files:,} small files became one, of {step.after:,} now"
    if step.action == "clean":
        return f"{step.name}: deleted {_deleted(step)}"
    return _arrangement(step, dry_run=False)


def _arrangement(step: Done, dry_run: bool) -> str:
    words = _WORDS[step.action]
    how = f"not {words[0]} ({step.problem})" if step.problem else words[dry_run]
    return f"{step.name}: {how}: {step.what}"


def _tell_files(found: Sequence[Step], dry_run: bool) -> None:
    """For each table what became of its files."""
    compacted: dict[str, list[Compacted]] = {}
    cleaned: dict[str, Cleaned] = {}
    for step in found:
        if step.action == "compact":
            compacted.setdefault(step.name, []).append(step)
        elif step.action == "clean":
            cleaned[step.name] = step
    rows = []
    for name in dict.fromkeys([*compacted, *cleaned]):
        steps, gone = compacted.get(name), cleaned.get(name)
        rows.append((name, *(_became(steps) if steps else ("", "")), _deleted(gone) if gone else ""))
    if rows:
        table(("", "files", "small ones", "to delete" if dry_run else "deleted"), rows)


def _became(steps: Sequence[Compacted]) -> tuple[str, str]:
    """A table's files before and after; the bytes of those that became fewer, and what they are now."""
    before, after = size(sum(step.size for step in steps)), [step.new_size for step in steps]
    files = f"{steps[0].before:,} → {steps[-1].after:,}"
    return files, before if None in after else f"{before} → {size(sum(each or 0 for each in after))}"


def _deleted(step: Cleaned) -> str:
    log = f" and {step.log:,} of the log" if step.log else ""
    what = f"{step.files:,} file{'s' * (step.files != 1)}{log}, {size(step.size)}"
    return f"nothing: {step.problem}; {what} to go" if step.problem else what
