"""Merge the settings in the environment and in a home's file, and record the origin of each setting."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from weft.configuration.fields import FILE, PLACES, Configuration, Place, User, description
from weft.configuration.postgres_uri import without_password
from weft.configuration.spark_names import secret, suggestion_for, why_invalid, why_refused
from weft.configuration.toml_file import Written, read_toml
from weft.errors import Refused
from weft.printable import Brief, require_text

_PREFIX: Final = "WEFT_"
_ALIKE: Final = 0.85
_FIELDS: Final = {place.key: name for name, place in PLACES.items() if place.key is not None}
_VARIABLES: Final = {place.variable: name for name, place in PLACES.items() if place.variable is not None}
_USER_KEYS: Final = tuple(User.model_fields)
_SECTIONS: Final = ("spark", "users", *dict.fromkeys(key.partition(".")[0] for key in _FIELDS))
_PASSWORD: Final = ("smtp_password", "smtp_password_env", "smtp_password_file")
_WORDS: Final = {
    "int": "it should be a whole number, such as 5",
    "float": "it should be a number",
    "bool": "it should be true or false",
    "string": "it should be a string in quotes",
    "tuple": 'it should be a list of strings, such as ["a", "b"]',
    "path": "it should be a string in quotes",
}
"""Messages for a value of the wrong type. The key is the first word of pydantic's error type."""
_NOT_SETTINGS: Final = ("WEFT_FAILPOINT", "WEFT_MESSAGE_ID", "WEFT_QUERY")


@dataclass(frozen=True, repr=False)
class Setting(Brief):
    """An effective setting: its key, its value (hidden for a secret), and its origin.

    ``variable`` is the environment variable, or None. ``origin`` is a variable, a file with the line, or "default".
    """

    key: str
    value: Any
    origin: str
    variable: str | None

    def _brief(self) -> str:
        return f"{self.key} = {self.value}, {self.origin}"


@dataclass
class _Read:
    """The values from the environment and the file, by field."""

    values: dict[str, Any]
    places: dict[tuple[str, ...], tuple[str, str | None]]
    """The origin of each value: its name for messages, and the file with the line, or None for a variable."""


def configuration(home: Path | None = None) -> Configuration:
    """Return the current settings. Variables override the file of ``home``, and the file overrides the defaults.

    If ``home`` is None, read no file. Raise Refused if a setting is unknown or a value is invalid. The error names the
    variable, or the key with its file and line.
    """
    return _validated(_read_settings(home), home)


def settings_of(home: Path) -> tuple[Setting, ...]:
    """Return every setting of a home with its origin. The errors of ``configuration`` pass through."""
    read = _read_settings(home)
    chosen = _validated(read, home)
    settings = []
    for field, place in PLACES.items():
        value = getattr(chosen, field)
        hidden = "(hidden)" if place.secret and value is not None else value
        name = place.key or field
        settings.append(Setting(name, hidden, _origin(read, (field,)), place.variable))
    for key, text in sorted(chosen.spark.items()):
        settings.append(Setting(key, "(hidden)" if secret(key) else text, _origin(read, ("spark", key)), None))
    for name, user in sorted(chosen.users.items()):
        for key in _USER_KEYS:
            path = ("users", name, key)
            if path in read.places:
                settings.append(Setting(".".join(path), getattr(user, key), _origin(read, path), None))
    return tuple(settings)


def _origin(read: _Read, path: tuple[str, ...]) -> str:
    if path not in read.places:
        return "default"
    name, where = read.places[path]
    return where or name


def _read_settings(home: Path | None) -> _Read:
    read = _Read({}, {})
    if home is not None:
        for written in read_toml(home / FILE):
            _add_key(read, written)
    for name, field in _VARIABLES.items():
        if text := os.environ.get(name):
            read.values[field] = require_text(text, f"the variable {name}")
            read.places[field,] = (name, None)
    _refuse_misspelt(read.values.get("smtp_password_env"))
    _refuse_two_passwords(read)
    _leave_one_password(read)
    return read


def _add_key(read: _Read, written: Written) -> None:
    path, key = written.path, ".".join(written.path)
    if key in _FIELDS:
        read.values[_FIELDS[key]] = written.value
        read.places[_FIELDS[key],] = (key, written.where)
    elif key.startswith("spark."):
        name = _spark_name(path, written)
        read.values.setdefault("spark", {})[name] = _spark_text(name, written)
        read.places["spark", name] = (name, written.where)
    elif path[0] == "users" and len(path) == 3 and path[2] in _USER_KEYS:
        read.values.setdefault("users", {}).setdefault(path[1], {})[path[2]] = written.value
        read.places[path] = (key, written.where)
    elif not (path == (path[0],) and path[0] in _SECTIONS and written.value == {}):
        raise _unknown(key, written)


def _spark_name(path: tuple[str, ...], written: Written) -> str:
    last = path[-1]
    if path[0] == "spark" and "." in last and not last.startswith("spark."):
        full_name = suggestion_for(f"spark.{last}") or f"spark.{last}"
        raise Refused(
            f"{last!r} is not a Spark setting, because the names of Spark settings begin with spark.: did you "
            f"mean {full_name!r}?",
            where=written.where,
            hint="Write the full name in quotes.",
        )
    name = ".".join(path)
    while name.startswith("spark.spark."):  # "spark.x.y" = … below [spark]
        name = name.removeprefix("spark.")
    reason = why_refused(name)
    if reason is not None:
        raise Refused(f"{name} cannot be set: {reason}", where=written.where, hint="Remove the line.")
    near = suggestion_for(name)
    if near is not None:
        own = why_refused(near) if near.count(".") > 1 else None
        if own:
            raise Refused(
                f"{name} is not a setting of Weft or Spark, and the similar setting {near} cannot be set: {own}",
                where=written.where,
                hint="Remove the line.",
            )
        raise Refused(
            f"{name} is not a setting of Weft or Spark: did you mean {near}?",
            where=written.where,
            hint='Write into [spark] only master, memory, and settings such as "spark.sql.shuffle.partitions" = 4.',
        )
    return name


def _spark_text(name: str, written: Written) -> str:
    value = written.value
    if not isinstance(value, str | int | float):
        shown = "invalid" if secret(name) else repr(value)
        raise Refused(f"{name} is {shown}: it should be a string, a number, true or false", where=written.where)
    text = str(value).lower() if isinstance(value, bool) else str(value)
    wrong = why_invalid(name, text)
    if wrong is not None:
        raise Refused(f"{name} is {value!r}: {wrong}", where=written.where, hint="Change or remove the line.")
    return text


def _unknown(key: str, written: Written) -> Refused:
    only = next((place for name, place in PLACES.items() if place.key is None and key.split(".")[-1] == name), None)
    if only is not None:
        return Refused(
            f"{key} cannot be set in a home's file",
            where=written.where,
            hint=f"Set the variable {only.variable} instead: the setting applies to the whole machine.",
        )
    people = _user_keys(written.path)
    near = difflib.get_close_matches(key, [*_FIELDS, *people], 1, 0.6) or _by_last_word(key)
    likely = f": did you mean {near[0]}?" if near else ""
    return Refused(
        f"{key} is not a setting{likely}",
        where=written.where,
        hint=None if near else "`weft config` lists all settings.",
    )


def _user_keys(path: tuple[str, ...]) -> Iterator[str]:
    if len(path) > 1:
        yield from (f"users.{path[1]}.{key}" for key in _USER_KEYS)


def _by_last_word(key: str) -> list[str]:
    """Return at most one known key with the same last word, such as ``smtp.host`` for ``host``."""
    last = key.rpartition(".")[2]
    return [known for known in _FIELDS if known.rpartition(".")[2] == last][:1]


def _validated(read: _Read, home: Path | None) -> Configuration:
    try:
        checked = Configuration(**read.values)
    except ValidationError as error:
        raise _refusal(read, error) from None
    return checked if home is None else _relative_to_home(checked, read, home)


def _relative_to_home(checked: Configuration, read: _Read, home: Path) -> Configuration:
    moved = {
        field: home / Path(value).expanduser()
        for field in ("files_root", "delta_root", "smtp_ca_file", "smtp_password_file")
        if (value := getattr(checked, field)) is not None and read.places[field,][1] is not None
    }
    return checked.model_copy(update=moved) if moved else checked


def _refusal(read: _Read, error: ValidationError) -> Refused:
    first = error.errors()[0]
    location = tuple(str(part) for part in first["loc"])
    path = next(location[:length] for length in range(len(location), 0, -1) if location[:length] in read.places)
    name, where = read.places[path]
    place = PLACES.get(path[0], Place(None))
    value = "invalid" if place.secret else without_password(repr(first["input"]))
    reason = _reason(first)
    suggestion = _suggestion(first)
    undo = (
        "Change the variable, or unset the variable to use the default."
        if where is None
        else "Change or remove the line."
    )
    meaning = description(path[0])
    return Refused(
        f"{name} is {value}: {reason[:1].lower()}{reason[1:]}{suggestion}",
        where=where,
        hint=f"Meaning: {meaning}. {undo}",
    )


def _reason(error: Mapping[str, Any]) -> str:
    """Explain in Weft's words why a value is invalid."""
    kind = str(error["type"])
    if kind == "string_too_short":
        return "it should not be empty"
    if kind.endswith(("_type", "_parsing", "_from_float")):
        return _WORDS.get(kind.partition("_")[0], str(error["msg"]))
    return str(error["msg"]).removeprefix("Value error, ").replace("Input should", "it should", 1)


def _suggestion(error: Mapping[str, Any]) -> str:
    if error["type"] != "literal_error":
        return ""
    words = [word for word in str(error["ctx"]["expected"]).split("'") if word.isalnum()]
    near = difflib.get_close_matches(str(error["input"]), [word for word in words if word != "or"], 1, 0.6)
    return f": did you mean {near[0]}?" if near else ""


def _refuse_two_passwords(read: _Read) -> None:
    """Raise Refused if one source sets two passwords. One of two passwords would silently override the other."""
    for in_file in (True, False):
        ways = [path for field in _PASSWORD if (path := (field,)) in read.places]
        passwords = [read.places[path] for path in ways if (read.places[path][1] is not None) == in_file]
        if len(passwords) > 1:
            raise Refused(
                f"the password is set twice: by {' and by '.join(name for name, _ in passwords)}",
                where=passwords[1][1],
                hint="Remove all but one.",
            )


def _leave_one_password(read: _Read) -> None:
    """Remove the password of the file if an environment variable sets the password."""
    ways = [path for field in _PASSWORD if (path := (field,)) in read.places]
    if any(read.places[path][1] is None for path in ways):
        for path in ways:
            if read.places[path][1] is not None:
                del read.places[path], read.values[path[0]]


def _refuse_misspelt(named: object) -> None:
    for name, near in _misspelt(name for name in os.environ if name != named):
        raise Refused(
            f"{name} is not a setting: did you mean {near}?",
            hint=f"Set {near} instead, or unset {name}.",
        )


def _misspelt(names: Iterable[str]) -> Iterator[tuple[str, str]]:
    for name in names:
        if name.startswith(_PREFIX) and name not in _VARIABLES and name not in _NOT_SETTINGS:
            for near in difflib.get_close_matches(name, _VARIABLES, 1, _ALIKE):
                yield name, near
