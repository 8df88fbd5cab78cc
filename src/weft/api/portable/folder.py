"""Write and read the text files of a folder: two files for each query, saved query and view, one for each source.

``queries/NAME.sql``, ``saved/NAME.sql`` and ``views/NAME.sql`` contain the texts (``NAME.formula`` for other
languages), and ``NAME.toml`` contains the rest.  The order and the form of the lines depend only on the content.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final, TypeVar, get_args

from weft.api.portable.access import Access, DescribedGroup, DescribedUser, Rights, rights_values
from weft.api.portable.described import (
    Definitions,
    Described,
    DescribedChannel,
    DescribedQuery,
    DescribedSaved,
    DescribedSource,
    DescribedView,
)
from weft.api.saving import form_parameter
from weft.api.standing import Keep
from weft.catalog.naming import folded
from weft.catalog.records import SAVED, FromMode
from weft.catalog.users import UserLimits
from weft.configuration.toml_file import parse_toml
from weft.errors import Refused
from weft.extraction.sources.mail import MAIL_KINDS
from weft.instants import format_interval, parse_interval
from weft.planning.stored_synopsis import Language
from weft.printable import Brief, counted
from weft.rights.policy import GRANTABLE
from weft.rights.principal import ROLES

QUERIES: Final = "queries"
VIEWS: Final = "views"
SOURCES: Final = "sources"
USERS: Final = "users"
GROUPS: Final = "groups"
_FLAGS: Final = ("paused", "allow_unbounded", "discard_history", "duplicates")
_TEXTS: Final = (".sql", ".formula")

D = TypeVar("D", DescribedQuery, DescribedView, DescribedSource, DescribedSaved, DescribedUser, DescribedGroup)


@dataclass(frozen=True, repr=False)
class Exported(Brief):
    """The files of an export, relative to its folder.

    ``written`` are new or changed.  ``removed`` were deleted, and ``left`` stay, although the home has no such
    definition.  ``unchanged`` is the number of other files.
    """

    folder: Path
    written: tuple[str, ...]
    removed: tuple[str, ...]
    left: tuple[str, ...]
    unchanged: int

    def _brief(self) -> str:
        changed = f"{counted(len(self.written), 'file')} written, {len(self.removed)} removed"
        return f"export to {self.folder}: {changed}, {self.unchanged} unchanged"


def write_folder(folder: Path, definitions: Definitions, *, prune: bool) -> Exported:
    """Write the definitions into a folder.  With ``prune``, delete the files of all other definitions.

    A file with the same content is not written.  Raise Refused if a file cannot be written.
    """
    wanted = dict(_files(definitions))
    try:
        there = _there(folder)
        written = [name for name, text in wanted.items() if _write(folder / name, text)]
        others = tuple(sorted(there - wanted.keys()))
        for name in others if prune else ():
            (folder / name).unlink()
    except OSError as error:
        raise Refused(f"the folder cannot be written: {error.strerror}", where=str(error.filename or folder)) from None
    removed, left = (others, ()) if prune else ((), others)
    return Exported(folder, tuple(written), removed, left, len(wanted) - len(written))


def _there(folder: Path) -> set[str]:
    kinds = {
        QUERIES: (*_TEXTS, ".toml"),
        VIEWS: (".sql", ".toml"),
        SOURCES: (".toml",),
        SAVED: (".sql", ".toml"),
        USERS: (".toml",),
        GROUPS: (".toml",),
    }
    return {
        f"{kind}/{file.name}"
        for kind, suffixes in kinds.items()
        if (folder / kind).is_dir()
        for file in (folder / kind).iterdir()
        if file.suffix in suffixes and file.is_file()
    }


def _write(file: Path, text: str) -> bool:
    content = text.encode()
    if file.exists() and file.read_bytes() == content:
        return False
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_name(f".{file.name}.new")
    draft.write_bytes(content)
    os.replace(draft, file)
    return True


def _files(definitions: Definitions) -> Iterator[tuple[str, str]]:
    for query in definitions.queries:
        suffix = ".sql" if query.language == "sql" else ".formula"
        yield f"{QUERIES}/{query.name}{suffix}", query.sql + "\n"
        channels = "".join(f"\n[[channel]]\n{_lines(vars(each))}" for each in query.channels)
        yield f"{QUERIES}/{query.name}.toml", _lines(_query_values(query)) + channels
    for view in definitions.views:
        yield f"{VIEWS}/{view.name}.sql", view.sql + "\n"
        yield f"{VIEWS}/{view.name}.toml", _lines({"mode": view.mode})
    for source in definitions.sources:
        yield f"{SOURCES}/{source.name}.toml", _lines(_source_values(source))
    for saved in definitions.saved:
        yield f"{SAVED}/{saved.name}.sql", saved.sql + "\n"
        yield f"{SAVED}/{saved.name}.toml", _lines(_saved_values(saved))
    for user in definitions.access.users:
        values = {"role": user.role, **vars(user.limits), **rights_values(user.rights)}
        yield f"{USERS}/{user.name}.toml", _lines(values)
    for group in definitions.access.groups:
        values = {"members": list(group.members) or None, **rights_values(group.rights)}
        yield f"{GROUPS}/{group.name}.toml", _lines(values)


def _query_values(query: DescribedQuery) -> dict[str, Any]:
    """Return the values in the order of the file.  The usual values are omitted."""
    return {
        "user": query.user,
        "every": None if query.every_us is None else format_interval(query.every_us),
        "from": None if query.start == "start" else query.start,
        "language": None if query.language == "sql" else query.language,
        "keep": None if query.keep == "history" else query.keep,
        **{flag: getattr(query, flag) for flag in _FLAGS},
        "saved": query.saved,
    }


def _source_values(source: DescribedSource) -> dict[str, Any]:
    columns = source.columns
    return {
        "kind": source.kind,
        "at": source.at,
        "table": source.table,
        "key": list(source.key) or None,
        "every": format_interval(source.every_us),
        "ts": source.ts,
        "columns": None if columns is None else [[each for each in pair if each is not None] for pair in columns],
        "rename": [list(pair) for pair in source.rename] or None,
        "slot": source.slot,
        "publication": source.publication,
    }


def _saved_values(saved: DescribedSaved) -> dict[str, Any]:
    parameters = [str(each) for each in saved.parameters]
    return {"user": saved.user, "description": saved.description or None, "parameters": parameters}


def _lines(values: Mapping[str, Any]) -> str:
    return "".join(f"{key} = {_value(value)}\n" for key, value in values.items() if value not in (None, False))


def _value(value: Any) -> str:
    if isinstance(value, list) and value and isinstance(value[0], list):
        return "[\n" + "".join(f"    {_value(each)},\n" for each in value) + "]"
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    # JSON's strings are those of TOML, apart from one control character.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def read_folder(folder: Path, errors: list[Refused]) -> Definitions:
    """Read the definitions in a folder.  Append the errors of its files to ``errors``, and omit these files.

    Raise Refused if the folder has no definitions.
    """
    if not any((folder / kind).is_dir() for kind in (QUERIES, VIEWS, SOURCES, SAVED, USERS, GROUPS)):
        raise Refused(
            "this folder has no definitions",
            where=str(folder),
            hint=f"Name a folder that `weft export` has written, with files such as {QUERIES}/NAME.toml.",
        )
    return Definitions(
        tuple(_read(folder / QUERIES, _query, errors)),
        tuple(_read(folder / VIEWS, _view, errors)),
        tuple(_read(folder / SOURCES, _source, errors)),
        tuple(_read(folder / SAVED, _saved, errors)),
        Access(tuple(_read(folder / USERS, _user, errors)), tuple(_read(folder / GROUPS, _group, errors))),
    )


def _read(folder: Path, make: Callable[[Path, _Values], D], errors: list[Refused]) -> Iterator[D]:
    files = list(folder.iterdir()) if folder.is_dir() else []
    seen: dict[str, str] = {}
    named = {each.stem for each in files if each.suffix == ".toml"}
    for file in sorted(each for each in files if each.suffix == ".toml"):
        try:
            made = make(file, _Values.of(file))
            if (other := seen.setdefault(folded(made.name), file.name)) != file.name:
                raise Refused(f"{other} has the same name", where=str(file), hint="The case of names does not count.")
            yield made
        except Refused as error:
            error.where = error.where or str(file)
            errors.append(error)
    for file in sorted(each for each in files if each.suffix in _TEXTS and each.stem not in named):
        hint = f"Write the file {file.stem}.toml; it may be empty."
        errors.append(Refused("this text has no settings file", where=str(file), hint=hint))


@dataclass
class _Values:
    """The values of a TOML file.  Each is taken once, so that those that remain are unknown."""

    where: str
    values: dict[str, Any]

    @classmethod
    def of(cls, file: Path) -> _Values:
        try:
            return cls(str(file), parse_toml(text_of(file)))
        except ValueError as error:
            raise Refused(f"the file is not valid TOML: {error}", where=str(file)) from None

    def text(self, key: str, choices: Sequence[str] = ()) -> str | None:
        value = self.values.pop(key, None)
        if value is not None and not isinstance(value, str):
            raise self._wrong(key, value, f'Write {key} = "…".')
        if value is not None and choices and value not in choices:
            raise self._wrong(key, value, f"Use one of {', '.join(choices)}.")
        return value

    def flag(self, key: str) -> bool:
        value = self.values.pop(key, False)
        if not isinstance(value, bool):
            raise self._wrong(key, value, f"Write {key} = true or {key} = false.")
        return value

    def number(self, key: str) -> int | None:
        value = self.values.pop(key, None)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
            raise self._wrong(key, value, f"Write {key} = and a number from 1 on.")
        return value

    def interval(self, key: str) -> int | None:
        text = self.text(key)
        return None if text is None else parse_interval(text)

    def texts(self, key: str) -> tuple[str, ...]:
        value = self.values.pop(key, [])
        listed = [value] if isinstance(value, str) else value
        if not isinstance(listed, list) or not all(isinstance(each, str) for each in listed):
            raise self._wrong(key, value, f'Write {key} = ["…"].')
        return tuple(listed)

    def pairs(self, key: str, *, single: bool) -> tuple[tuple[str, Any], ...] | None:
        value = self.values.pop(key, None)
        if value is None:
            return None
        sizes = (1, 2) if single else (2,)
        if not isinstance(value, list) or not all(
            isinstance(pair, list) and len(pair) in sizes and all(isinstance(each, str) for each in pair)
            for pair in value
        ):
            raise self._wrong(key, value, f'Write {key} = [["…", "…"], ["…", "…"]].')
        return tuple((pair[0], pair[1] if len(pair) == 2 else None) for pair in value)

    def inner(self, key: str) -> list[_Values]:
        value = self.values.pop(key, [])
        if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
            raise self._wrong(key, value, f"Begin each {key} with the line [[{key}]].")
        return [_Values(self.where, each) for each in value]

    def required(self, key: str, value: Any) -> Any:
        if value in (None, ()):
            raise Refused(f"{key} is missing", where=self.where)
        return value

    def end(self) -> None:
        if self.values:
            raise Refused(f"there is no key {next(iter(self.values))!r} here", where=self.where)

    def _wrong(self, key: str, value: Any, hint: str) -> Refused:
        return Refused(f"{key} has the value {value!r}", where=self.where, hint=hint)


def text_of(file: Path) -> str:
    """Return the text of a UTF-8 file.  Raise Refused if it cannot be read."""
    try:
        return file.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise Refused(f"the file cannot be read: {error.strerror}", where=str(file)) from None
    except UnicodeDecodeError:
        raise Refused("the file is not UTF-8 text", where=str(file), hint="Save the file as UTF-8.") from None


def _query(file: Path, values: _Values) -> DescribedQuery:
    language: Any = values.text("language", get_args(Language)) or "sql"
    start: Any = values.text("from", get_args(FromMode)) or "start"
    keep: Any = values.text("keep", get_args(Keep)) or "history"
    query = DescribedQuery(
        file.stem,
        text_of(text_file(file, language)).strip(),
        values.text("user"),
        values.interval("every"),
        start,
        language=language,
        keep=keep,
        saved=values.text("saved"),
        channels=tuple(sorted(map(_channel, values.inner("channel")), key=lambda each: each.to)),
        **{flag: values.flag(flag) for flag in _FLAGS},
    )
    values.end()
    return query


def text_file(file: Path, language: str = "sql") -> Path:
    """Return the file with the text of a query or view whose settings are in ``file``."""
    return file.with_name(file.stem + (".sql" if language == "sql" else ".formula"))


def _channel(values: _Values) -> DescribedChannel:
    to = values.required("to", values.text("to"))
    channel = DescribedChannel(to, values.text("digest"), values.text("zone"), values.flag("muted"))
    values.end()
    return channel


def _view(file: Path, values: _Values) -> DescribedView:
    mode: Any = values.text("mode", ("eager", "batched")) or "eager"
    values.end()
    return DescribedView(file.stem, text_of(text_file(file)).strip(), mode)


def _source(file: Path, values: _Values) -> DescribedSource:
    kind: Any = values.required("kind", values.text("kind"))
    ts: Any = values.text("ts")
    key = values.texts("key")
    source = DescribedSource(
        file.stem,
        kind,
        values.required("at", values.text("at")),
        key if kind in MAIL_KINDS else values.required("key", key),
        values.required("every", values.interval("every")),
        ts,
        values.pairs("columns", single=True),
        values.pairs("rename", single=False) or (),
        *(values.text(each) for each in ("table", "slot", "publication")),
    )
    values.end()
    return source


def _saved(file: Path, values: _Values) -> DescribedSaved:
    sql, parameters = text_of(text_file(file)).strip(), tuple(map(form_parameter, values.texts("parameters")))
    saved = DescribedSaved(file.stem, sql, parameters, values.text("user"), (values.text("description") or "").strip())
    values.end()
    return saved


def _user(file: Path, values: _Values) -> DescribedUser:
    role: Any = values.text("role", ROLES) or "reader"
    limits = UserLimits(*(values.number(each.name) for each in fields(UserLimits)))
    user = DescribedUser(file.stem, role, limits, _rights(values))
    values.end()
    return user


def _group(file: Path, values: _Values) -> DescribedGroup:
    group = DescribedGroup(file.stem, tuple(sorted(values.texts("members"))), _rights(values))
    values.end()
    return group


def _rights(values: _Values) -> Rights:
    return tuple(sorted({(each.value, about) for each in GRANTABLE for about in values.texts(each.value)}))


def file_of(folder: Path, each: Described) -> Path:
    """Return the file with the settings of a definition."""
    kinds = {
        DescribedQuery: QUERIES,
        DescribedView: VIEWS,
        DescribedSource: SOURCES,
        DescribedSaved: SAVED,
        DescribedUser: USERS,
    }
    return folder / kinds.get(type(each), GROUPS) / f"{each.name}.toml"
