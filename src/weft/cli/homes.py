"""The commands ``init``, ``config``, ``prepare`` and ``doctor``."""

from __future__ import annotations

import os
import shlex
import stat
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weft.api.json.homes import check_json, copied_json, destroyed_json, setting_json
from weft.cli import terminal
from weft.cli.frame import HOME_VARIABLE, HomeOption, JsonOption, example, home_folder, opened
from weft.cli.printing import echo, plain, print_json, screen, table, working
from weft.errors import Refused
from weft.printable import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weft.catalog import Catalog
    from weft.catalog.address import CatalogAddress
    from weft.configuration.merge_settings import Setting


class ClockName(str, Enum):
    """The clock of a home."""

    wall = "wall"
    replay = "replay"


def add_to(app: typer.Typer) -> None:
    """Register the commands with ``app``."""
    app.command(
        epilog=example(
            "weft init",
            "weft init history --clock replay",
            "weft init shop --catalog postgresql://anna@db.example/weft",
            "weft init shop --store s3://bucket/shop --catalog postgresql://anna@db.example/weft",
        )
    )(init)
    app.command(
        epilog=example(
            "weft copy weft-home /mnt/new/home", "weft copy shop moved --catalog postgresql://anna@db.example/weft"
        )
    )(copy)
    app.command(epilog=example("weft destroy old-home", "weft destroy old-home --yes"))(destroy)
    app.command(epilog=example("weft config", "weft config --json"))(config)
    app.command(epilog=example("weft prepare", "weft prepare --s3", "weft prepare --archive weft-environment.tar.gz"))(
        prepare
    )
    app.command(epilog=example("weft doctor"))(doctor)


def init(
    folder: Annotated[
        str | None, typer.Argument(metavar="FOLDER", help="The home folder (default: $WEFT_HOME, else ./weft-home).")
    ] = None,
    clock: Annotated[
        ClockName | None,
        typer.Option(
            help="wall: the present time (the default); replay: `weft tick --now` sets the time, to replay a history."
        ),
    ] = None,
    catalog: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="The PostgreSQL database for the catalog: postgresql://USER@HOST/DB (default: a file in the home).",
        ),
    ] = None,
    store: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="The place on S3 for the data: s3://BUCKET/PREFIX (default: the home folder)."
        ),
    ] = None,
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Make a home: a folder with tables, queries and answers."""
    from weft.api.weft import Weft

    folder_of_home = home_folder(_chosen_folder(folder, home))
    before = _mode(folder_of_home)
    with Weft.open(
        folder_of_home, clock=None if clock is None else clock.value, create=True, catalog=catalog, store=store
    ) as weft:
        record, address = weft.catalog.home(), weft.catalog.address
        if json:
            places = {"catalog": str(address), "store": str(address.data)}
            print_json({"home": str(folder_of_home), "clock": record.clock, "id": record.home_id, **places})
            return
        _print_home(folder_of_home, before, weft.catalog)


def _print_home(folder: Path, before: int | None, catalog: Catalog) -> None:
    """Print the result of ``init``. ``before`` is the mode that the folder had."""
    record, address = catalog.home(), catalog.address
    what = "is one more folder of a home" if catalog.joins else "is a home"
    echo(f"{folder} {what} with the {record.clock} clock.")
    if address.url is not None:
        echo(f"Its catalog is the schema {address.schema} of {address}.")
    if address.on_s3:
        echo(f"Its data is in {address.data}.")
    if address.one_machine:
        echo("Its catalog is a file here, so one machine can use it. --catalog names a database for several.")
    if catalog.joins:
        from weft.catalog.channel_folders import unshared

        for scheme, setting in unshared(folder, record.home_id).items():
            echo(f"{scheme}: channels need the folder of the other machines: name it in {setting}.")
    after = _mode(folder)
    if before is not None and after != before:
        echo(f"The permissions of the folder were {before:03o} and are now {after:03o} (setting home.access).")
    others = os.environ.get(HOME_VARIABLE)
    if others and os.path.realpath(others) != os.path.realpath(folder):
        echo(f"{HOME_VARIABLE} is {others}: commands without --home {folder} use that home.")


def copy(
    source: Annotated[str, typer.Argument(metavar="HOME", help="The home to copy.")],
    to: Annotated[str, typer.Argument(metavar="TO", help="The folder of the copy, new or empty.")],
    catalog: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="The PostgreSQL database for the copy's catalog: postgresql://USER@HOST/DB (default: a file in TO).",
        ),
    ] = None,
    store: Annotated[
        str | None,
        typer.Option(metavar="URL", help="The place on S3 for the copy's data: s3://BUCKET/PREFIX (default: TO)."),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Copy a home, also to or from S3 and PostgreSQL, and verify the copy; an interrupted copy continues."""
    with opened(Path(source)) as weft, working("copying"):
        copied = weft.copy(to, store=store, catalog=catalog)
    if json:
        print_json(copied_json(copied))
        return
    what = ", ".join(
        (
            f"{counted(copied.tables, 'table')} with {counted(copied.rows, 'row')}",
            counted(copied.answers, "answer"),
            f"{counted(copied.quarantined, 'record')} in quarantine",
            counted(copied.files, "file"),
        )
    )
    echo(f"{'Finished the copy of' if copied.resumed else 'Copied'} {source} to {to}: {what}. All were verified.")
    echo(f"{source} is unchanged. Both are homes that deliver answers: tick only one of them.")


def destroy(
    home: Annotated[str, typer.Argument(metavar="HOME", help="The home to delete.")],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for the name of the home again.")] = False,
    json: JsonOption = False,
) -> None:
    """Delete a home: its tables, queries and answers, its catalog, and its data on S3."""
    from weft.api.destroying import continued_destruction

    destroyed = continued_destruction(home_folder(Path(home)))
    if destroyed is None:
        with opened(Path(home)) as weft:
            if not yes:
                _require_name(home, weft.catalog.address)
            destroyed = weft.destroy()
    if json:
        print_json(destroyed_json(destroyed))
        return
    echo(f"Destroyed {home}.")
    if destroyed.kept:
        kept = ", ".join(str(each) for each in destroyed.kept)
        echo(f"These files stay (output of channels, and what Weft has not made): {kept}")


def _require_name(home: str, address: CatalogAddress) -> None:
    """Ask the user for the name of the home. Raise Refused if it is not typed."""
    if not terminal.stdin_is_terminal():
        raise Refused("this deletes the home, and there is no terminal to ask", hint="Add --yes to delete it.")
    echo(f"This deletes {home}, its catalog {address} and its data in {address.data}. Nothing restores them.")
    if input(f"Type {home} to delete it: ").strip() != home:
        raise Refused("the name differs, so nothing was deleted")


def _mode(folder: Path) -> int | None:
    return stat.S_IMODE(folder.stat().st_mode) if folder.exists() else None


def _chosen_folder(folder: str | None, home: Path | None) -> Path | None:
    if folder == "":
        raise Refused("the argument FOLDER is an empty text", hint="Name the folder of the home: weft init my-home")
    if folder is None or home is None or os.path.abspath(folder) == os.path.abspath(home):
        return home if folder is None else Path(folder)
    raise Refused(
        f"the command names two homes: FOLDER is {folder!r}, --home is {str(home)!r}",
        hint=f"Name one of the two: weft init {shlex.quote(folder)}",
    )


def config(home: HomeOption = None, json: JsonOption = False) -> None:
    """Show every setting: its value, and its origin: a variable, the home's weft.toml, or the default."""
    from weft.configuration import FILE, settings_of
    from weft.delivery.registry import default_channels

    folder = home_folder(home)
    default_channels(folder)
    settings = _in_effect(folder, settings_of(folder))
    if json:
        print_json([setting_json(each) for each in settings])
        return
    rows = [
        (each.key, as_text(each.value), plain(each.origin.removeprefix(f"{folder}/")), each.variable or "")
        for each in settings
    ]
    table(("setting", "value", "from", "variable"), rows)
    file = folder / FILE
    echo(f"The settings file of this home is {file}" + ("." if file.exists() else ", which does not exist yet."))


def _in_effect(home: Path, settings: Sequence[Setting]) -> list[Setting]:
    from weft.catalog import layout
    from weft.catalog.channel_folders import delta_root, files_root
    from weft.configuration import configuration
    from weft.runtime.java import cache_folder
    from weft.runtime.settings import jvm_memory, local_master

    chosen = configuration(home)
    computed = {
        "catalog.url": layout.catalog_file(home),
        "cache": cache_folder(),
        "files.root": files_root(home),
        "delta.root": delta_root(home),
        "spark.master": local_master(),
        "spark.memory": jvm_memory(chosen),
        "smtp.port": chosen.mail_port,
    }
    return [
        replace(each, value=computed[each.key], origin="default, computed")
        if each.value is None and each.key in computed
        else each
        for each in settings
    ]


def as_text(value: object) -> str:
    """Return the value of a setting for a table."""
    if value is None or value == ():
        return "-"
    return plain(
        ", ".join(value) if isinstance(value, tuple) else f"{value:g}" if isinstance(value, float) else str(value)
    )


def prepare(
    s3: Annotated[
        bool, typer.Option("--s3", help="Also download the jars with which Spark reads and writes S3.")
    ] = False,
    archive: Annotated[
        Path | None,
        typer.Option(
            "--archive",
            metavar="FILE",
            help="Only pack the Python packages that the executors of a cluster need, and print Spark's settings.",
        ),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Make an archive of Java classes, once after an installation, so that Spark starts faster."""
    from weft.demo.rehearsal import rehearse
    from weft.runtime.archiving import make_archive, wanted_archive

    if archive is not None:
        _pack(archive, json)
        return
    jars = _s3_jars(json) if s3 else ()
    with working("creating the class-data archive (one or two minutes; other commands work meanwhile)"):
        outcome = make_archive(rehearse)
    made = wanted_archive()
    file = None if made is None else str(made.file)
    if json:
        print_json({"outcome": outcome, "archive": file, "jars": [str(jar) for jar in jars]})
        return
    messages = {
        "made": f"Created {file}.",
        "there": f"{file} already exists.",
        "elsewhere": "Another process is creating the archive.",
        "cluster": "Spark runs on a cluster here, so no archive is needed.",
    }
    echo(messages[outcome])


def _s3_jars(json: bool) -> Sequence[Path]:
    from weft.runtime.jars import S3_JARS, fetch_jars

    with working("downloading the jars for S3"):
        jars = fetch_jars(S3_JARS)
    if not json:
        echo(f"The {len(jars)} jars for S3 are in {jars[0].parent}.")
    return jars


def _pack(file: Path, json: bool) -> None:
    from weft.runtime.executors import pack_environment

    with working("packing the packages"):
        settings = pack_environment(file)
    if json:
        print_json(settings)
    else:
        echo(f"Created {file}. Write into the section [spark] of weft.toml:")
        echo("\n".join(f'"{name}" = "{value}"' for name, value in settings.items()))


def doctor(home: HomeOption = None, json: JsonOption = False) -> None:
    """Check whether Weft can run here: Python, Java, Spark, Delta, the home; show how to fix what is wrong."""
    from weft.cli.server.client import server_state
    from weft.delivery.registry import default_channels
    from weft.runtime.doctor import Check, examine
    from weft.schedule.clock import now_us

    all_ok = True
    checks = []
    folder = home_folder(home)
    for check in (*examine(folder, now_us(), default_channels), Check("server", *server_state(folder))):
        all_ok = all_ok and check.ok
        checks.append(check_json(check))
        if not json:
            screen().print("ok  " if check.ok else "BAD ", style="green" if check.ok else "bold red", end="")
            fix = f" - {check.fix}" if check.fix and not check.ok else ""
            echo(f"{check.name}: {check.seen}{fix}")
    if json:
        print_json(checks)
    if not all_ok:
        raise typer.Exit(1)
