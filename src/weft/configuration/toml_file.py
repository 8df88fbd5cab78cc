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
        tree = _loads(text)
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
        _loads(new)
    except ValueError:
        raise Refused(
            f"{key} cannot be added to the settings",
            where=str(file),
            hint=f"Add it yourself, below [{key.partition('.')[0]}]: {line.partition('.')[2].strip()}",
        ) from None
    real = Path(os.path.realpath(file))
    draft = real.with_name(f"{real.name}.new")
    try:
        make_file(draft)
        draft.write_text(new, encoding="utf-8")
        if real.exists():
            draft.chmod(real.stat().st_mode)
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


def _loads(text: str) -> dict[str, Any]:
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
    tree: Any = _loads(line)
    while isinstance(tree, dict) and len(tree) == 1:
        key, tree = next(iter(tree.items()))
        path = (*path, key)
    return path
