"""Read ``weft.toml`` as keys and values with their line numbers, and add a key to the file."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weft.access import make_file
from weft.errors import Refused


@dataclass(frozen=True)
class Written:
    """A key of the file, such as ``("smtp", "host")``, with its value. ``where`` is the file with the line number."""

    path: tuple[str, ...]
    value: Any
    where: str


def read_toml(file: Path) -> list[Written]:
    """Return the keys in file order, or an empty list without a file. Raise Refused if the file cannot be read."""
    text = _text(file)
    try:
        tree = parse_toml(text)
    except ValueError as error:
        raise Refused(
            f"the settings are not valid TOML: {str(error)[:1].lower()}{str(error)[1:]}",
            where=str(file),
            hint='Write each line as [section] or as key = value, with strings in quotes: host = "mail.example.com".',
        ) from None
    places = _lines(text)
    return [Written(path, value, _where(file, path, places)) for path, value in _flat(tree, ())]


def add_key(file: Path, key: str, value: str) -> None:
    """Write a new key with a string value below the header of its section, or else as the first line of the file.

    Create the file if it does not exist. Raise Refused if the file cannot be read or written, or if it excludes the
    line.
    """
    text = _text(file)
    section, _, name = key.rpartition(".")
    line = f"{key} = {json.dumps(value, ensure_ascii=False)}\n"
    new = f"{line}\n{text}" if text else line
    if header := re.search(rf"^\[{re.escape(section)}\][ \t]*\n", text, re.MULTILINE):
        new = f"{text[: header.end()]}{line.replace(key, name, 1)}{text[header.end() :]}"
    try:
        parse_toml(new)
    except ValueError:
        raise Refused(
            f"{key} cannot be added to the settings",
            where=str(file),
            hint=f"Add it yourself, below [{key.partition('.')[0]}]: {line.partition('.')[2].strip()}",
        ) from None
    _write(file, new)


def copy_toml(source: Path, target: Path, values: Mapping[str, str | None]) -> None:
    """Write the text of a settings file to another file, with other values of some keys. None removes a key.

    Raise Refused if a file cannot be read or written, or if the line of such a key has other keys, too.
    """
    before, text = read_toml(source), _text(source)
    lines, places = text.splitlines(keepends=True), _lines(text)
    for written in before:
        key = ".".join(written.path)
        if key in values and written.path in places:
            line, value = places[written.path] - 1, values[key]
            head = lines[line].partition("=")[0]
            lines[line] = "" if value is None else f"{head}= {json.dumps(value, ensure_ascii=False)}\n"
    filled = {each.path[0] for each in before if each.path not in places or lines[places[each.path] - 1]}
    for path, number in places.items():
        if lines[number - 1].lstrip().startswith("[") and path[0] not in filled:
            lines[number - 1] = ""  # the section has lost its last key
    if source.exists():
        _write(target, "".join(lines).lstrip("\n"), like=source)
    else:
        target.unlink(missing_ok=True)  # of an earlier attempt
    found = {".".join(each.path) for each in before}
    wanted = {each.path: values.get(".".join(each.path), each.value) for each in before}
    if {path: value for path, value in wanted.items() if value is not None} != {
        each.path: each.value for each in read_toml(target)
    }:
        target.unlink()
        raise Refused(
            f"the settings cannot be copied without {' and '.join(sorted(found & values.keys()))}",
            where=str(source),
            hint="Write each of these settings on a line of its own, such as " + 'catalog.url = "postgresql://…".',
        )
    for key, value in values.items():
        if value is not None and key not in found:
            add_key(target, key, value)


def _write(file: Path, text: str, like: Path | None = None) -> None:
    """Replace the file, and give it the permissions of the file ``like``, or its own."""
    real = Path(os.path.realpath(file))
    draft = real.with_name(f"{real.name}.new")
    try:
        make_file(draft)
        draft.write_text(text, encoding="utf-8")
        model = like or real
        if model.exists():
            draft.chmod(model.stat().st_mode)
        os.replace(draft, real)
    except OSError as error:
        raise Refused(f"the settings cannot be written: {error.strerror}", where=str(file)) from None


def _text(file: Path) -> str:
    try:
        return file.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise Refused(f"the settings cannot be read: {error.strerror}", where=str(file)) from None
    except UnicodeDecodeError:
        raise Refused("the settings are not UTF-8 text", where=str(file), hint="Save the file as UTF-8.") from None


def parse_toml(text: str) -> dict[str, Any]:
    """Return the values of a TOML text.  Raise ValueError for an invalid text."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    tree: dict[str, Any] = tomllib.loads(text)
    return tree


def _flat(tree: Mapping[str, Any], above: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    for key, value in tree.items():
        if isinstance(value, dict) and value:
            yield from _flat(value, (*above, key))
        else:
            yield (*above, key), value


def _where(file: Path, path: tuple[str, ...], places: Mapping[tuple[str, ...], int]) -> str:
    for length in range(len(path), 0, -1):  # a value within { } has the line of the enclosing key
        if path[:length] in places:
            return f"{file}, line {places[path[:length]]}"
    return str(file)


def _lines(text: str) -> dict[tuple[str, ...], int]:
    """Return the line of each key and section header. Python's TOML reader does not report lines."""
    lines: dict[tuple[str, ...], int] = {}
    section: tuple[str, ...] = ()
    for number, line in enumerate(text.splitlines(), 1):
        begin = line.strip()
        head, equals, _ = begin.partition("=")
        with suppress(ValueError):  # skips the middle of a value over several lines
            if begin.startswith("[") and not begin.startswith("[["):
                section = _path(begin)
                lines.setdefault(section, number)
            elif equals:
                lines.setdefault((*section, *_path(f"{head} = 0")), number)
    return lines


def _path(line: str) -> tuple[str, ...]:
    """Return the key in a line with a single key, or an empty tuple."""
    path: tuple[str, ...] = ()
    tree: Any = parse_toml(line)
    while isinstance(tree, dict) and len(tree) == 1:
        key, tree = next(iter(tree.items()))
        path = (*path, key)
    return path
