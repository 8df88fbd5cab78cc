"""Check whether Weft can run on this machine: Python, Java, the version of Spark, and the home.

The module does not start Spark. Each check gives one line. If a check fails, the line names the remedy.
"""

from __future__ import annotations

import os
import shlex
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from weft.access import FOLDER_MODES, wider
from weft.catalog import layout, open_catalog
from weft.catalog.address import CatalogAddress
from weft.catalog.channel_folders import ROOTS, shared_root
from weft.catalog.records import QueryRecord
from weft.catalog.subscriptions import Subscription
from weft.configuration import FILE, Configuration, configuration
from weft.errors import CatalogUnreachable, Refused, WeftError
from weft.printable import Brief, counted
from weft.runtime.archiving import wanted_archive
from weft.runtime.jars import S3_JARS, check_spark_version, local_jars
from weft.runtime.java import cache_folder, find_java
from weft.storage.attached_health import attached_problems
from weft.storage.verify import verify
from weft.store import LEAST_FREE, free_bytes

PYTHON: Final = (3, 10)


@dataclass(frozen=True, repr=False)
class Check(Brief):
    """A line of the doctor's report: subject, success, result, and remedy in case of a failure."""

    name: str
    ok: bool
    seen: str
    fix: str | None = None

    def __str__(self) -> str:
        advice = "" if self.ok or not self.fix else f" - {self.fix}"
        return f"{'ok  ' if self.ok else 'BAD '} {self.name}: {self.seen}{advice}"

    def _brief(self) -> str:
        return str(self)


def examine(home: Path | None, at: int, channels: Callable[[Path], object] | None = None) -> Iterator[Check]:
    """Yield the checks, including those of ``home`` if given. ``at`` is the wall-clock time (microseconds UTC).

    ``channels`` raises Refused if the settings of a home name an invalid channel. This module must not import channels.
    """
    yield _python()
    yield _guarded("settings", lambda: _settings(home, channels))
    yield _guarded("java", _java)
    yield _guarded("spark", lambda: f"pyspark {check_spark_version()}")
    yield _guarded("class archive", lambda: _class_archive(home))
    if home is not None:
        yield _disk(home)
        if layout.logs_folder(home).exists():
            yield _guarded("access", lambda: _access(home))
        yield from _home(home, at)


def _python() -> Check:
    version = ".".join(str(part) for part in sys.version_info[:3])
    wanted = ".".join(str(part) for part in PYTHON)
    running = f"{version} ({sys.executable})"
    return Check("python", sys.version_info >= PYTHON, running, f"Use Python {wanted} or newer.")


def _settings(home: Path | None, channels: Callable[[Path], object] | None) -> str:
    chosen = configuration(home)
    if home is not None and channels is not None:
        channels(home)
    if home is None or not (file := home / FILE).exists():
        return "valid"
    if chosen.smtp_password is not None and stat.S_IMODE(file.stat().st_mode) & 0o077:
        raise Refused(
            f"{file} contains a password, and other users of this machine can read it",
            hint=(
                f"Run `chmod 600 {file}`, or put the password into a separate file and name that file in password_file."
            ),
        )
    return f"valid, including {file}"


def _guarded(name: str, look: Callable[[], str]) -> Check:
    try:
        return Check(name, True, look())
    except WeftError as problem:
        where = f"{problem.where}: " if problem.where else ""
        return Check(name, False, f"{where}{problem.message}", _one_line(problem.hint))


def _java() -> str:
    java = find_java()
    return f"Java {java.release}, {java.origin}"


def _class_archive(home: Path | None) -> str:
    if configuration().class_archive == "off":
        return "not used: WEFT_CLASS_ARCHIVE is off"
    archive = wanted_archive(home)
    if archive is None:
        return "none: Spark runs on a cluster"
    if archive.there():
        return f"{archive.file.stat().st_size / 1000000.0:.0f} MB, {archive.file}"
    if archive.failure.exists():
        return f"could not be created; `weft prepare` tries again: {_one_line(archive.failure.read_text())}"
    if configuration().class_archive == "existing":
        return "not created yet; `weft prepare` creates it"
    return "not created yet; `weft prepare` creates it, or a background process after the first command with Spark"


def _disk(home: Path) -> Check:
    free, size = free_bytes(home)
    unit, bytes_each = ("GB", 1e9) if size >= 10e9 else ("MB", 1e6)
    seen = f"{free / bytes_each:,.1f} of {size / bytes_each:,.1f} {unit} are free on the disk of {home}"
    return Check(
        "disk", free >= LEAST_FREE, seen, f"free some space: loads and ticks need at least {LEAST_FREE >> 20} MiB"
    )


def _access(home: Path) -> str:
    """Raise Refused if the permissions of the home differ from the settings."""
    chosen = configuration(home)
    access, mode = chosen.home_access, stat.S_IMODE(home.stat().st_mode)
    if access == "umask":
        return f"{home} has mode {mode:04o}: home.access leaves the permissions to the umask"
    open_paths = [path for path in _own_files(home, chosen) if wider(path, access)]
    if wider(home, access) or open_paths:
        taken, others = ("go", "other users") if access == "owner" else ("o", "users outside its group")
        raise Refused(
            f"{_open_parts(home, mode, open_paths)} open to {others}, but home.access is {access}",
            hint=f"Run `chmod -R {taken}-rwx {shlex.quote(str(home))}`, or set home.access in {home / FILE}.",
        )
    if access == "group" and mode & FOLDER_MODES[access] != FOLDER_MODES[access]:
        place = shlex.quote(str(home))
        raise Refused(
            f"{home} has mode {mode:04o}, so the group cannot use it, but home.access is group",
            hint=f"Run `chmod -R g+rwX {place} && find {place} -type d -exec chmod g+s {{}} +`",
        )
    return f"{home} has mode {mode:04o}: only its {'owner' if access == 'owner' else 'group'} can enter it"


def _open_parts(home: Path, mode: int, paths: Sequence[Path]) -> str:
    if not paths:
        return f"{home} (mode {mode:04o}) is"
    first = f"{paths[0].relative_to(home)} (mode {stat.S_IMODE(paths[0].lstat().st_mode):04o})"
    return (
        f"{counted(len(paths), 'file or folder', 'files and folders')} of {home} (mode {mode:04o}), {first} first, are"
    )


def _own_files(home: Path, chosen: Configuration) -> Iterator[Path]:
    """Yield the files that Weft creates in a home, except for the settings and the output of channels."""
    excluded = {layout.files_folder(home), layout.delta_folder(home), chosen.files_root, chosen.delta_root, home / FILE}
    for folder, below, names in os.walk(home):
        here = Path(folder)
        below[:] = [name for name in sorted(below) if here / name not in excluded]
        for path in (here / name for name in (*below, *sorted(names))):
            if path not in excluded and path.exists():
                yield path


def _home(home: Path, at: int) -> Iterator[Check]:
    if not _occupied(home):
        yield Check("home", True, f"{home} does not exist yet; `weft init` or the first load creates it")
        return
    try:
        catalog = open_catalog(home, at=at)
    except CatalogUnreachable as problem:
        yield Check("catalog", False, f"{problem.where}: {problem.message}", _one_line(problem.hint))
        return
    except WeftError as problem:
        yield Check("home", False, problem.message, _one_line(problem.hint))
        return
    try:
        record = catalog.home()
        yield Check("catalog", True, f"{catalog.address}, format {record.format}")
        if catalog.address.on_s3:
            yield from _store(catalog.address)
        findings = verify(catalog)
        tables, attached = len(catalog.tables.known()), list(attached_problems(catalog, at))
        subscribed = catalog.subscriptions.of_live_queries()
    except WeftError as problem:
        yield Check("home", False, problem.message, _one_line(problem.hint))
        return
    finally:
        catalog.close()
    for trouble in attached:
        yield Check("attached", False, trouble, "See `weft table attach` in the reference.")
    for finding in findings:
        yield Check("home", False, f"{finding.path}: {finding.problem}", _one_line(finding.remedy))
    if not os.access(home, os.W_OK):
        yield Check("home", False, f"{home} cannot be written to", "Change its owner or permissions.")
    elif not findings:
        yield Check("home", True, f"{home}, tables: {tables}, all intact")
    yield from _roots(home, record.home_id, {each.channel.partition(":")[0] for each, _ in subscribed})
    yield from _deliveries(subscribed)


def _roots(home: Path, home_id: str, schemes: set[str]) -> Iterator[Check]:
    """Yield a check for each kind of channel that cannot write into its folder on this machine."""
    for scheme in sorted(schemes & ROOTS.keys()):
        check = _guarded("channels", lambda: str(shared_root(scheme, home, home_id)))  # noqa: B023 - called at once
        if not check.ok:
            yield check


def _store(address: CatalogAddress) -> Iterator[Check]:
    """Yield the checks of a home whose data is on S3."""
    shared = "; its catalog is a file, so one machine can use it" if address.one_machine else ""

    def reached() -> str:
        address.data.require()
        return f"{address.data} can be read and written{shared}"

    yield _guarded("store", reached)
    yield _guarded("jars for S3", lambda: f"{len(local_jars(S3_JARS))} in {cache_folder() / 'jars'}")


def _deliveries(subscribed: Sequence[tuple[Subscription, QueryRecord]]) -> Iterator[Check]:
    """Yield a check for each parked channel. If no channel is parked, yield one check for all channels."""
    parked = [(each, query) for each, query in subscribed if each.state == "parked"]
    for each, query in parked:
        seen = f"{each.channel} of {query.name} is {each.trouble or 'parked'}"
        yield Check("deliveries", False, seen, f"Correct the cause, then run `weft resume {query.name}`")
    if subscribed and not parked:
        failing = sum(1 for each, _ in subscribed if each.attempts and not each.muted)
        again = f", {failing} waiting for a retry" if failing else ""
        yield Check("deliveries", True, f"channels: {len(subscribed)}, none parked{again}")


def _occupied(home: Path) -> bool:
    return home.is_dir() and any(home.iterdir())


def _one_line(text: str | None) -> str | None:
    return None if text is None else " ".join(text.split())
