"""An operation of the HTTP API: one method of one path, made from one function.

The signature of the function gives the parameters: their names, their types, their defaults and their descriptions.
The routes, the checks of parameters, the OpenAPI document and the reference are all made from it.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import IO, Annotated, Any, Final, Literal, TypeAlias, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, create_model

from weft.api.weft import Weft
from weft.errors import Conflict, NotFound, Refused, WeftError
from weft.web.jobs import Jobs, Scopes

Method: TypeAlias = Literal["GET", "POST", "PUT", "DELETE"]
Right: TypeAlias = Literal["any", "read", "load", "channel", "install", "own", "admin"]
"""What the operation needs.  The methods of ``Weft`` check it: here it is only said."""
Fields: TypeAlias = dict[str, Any]
CHANGING: Final = (NotFound, Conflict, Refused)

_IN_PATH: Final = re.compile(r"{(\w+)}")


@dataclass(frozen=True)
class Rows:
    """The rows in the body of a request: JSON lines or CSV."""

    stream: IO[bytes]
    media_type: str


ROW_TYPES: Final = ("application/x-ndjson", "text/csv")
LARGEST: Final = 256 * 1024 * 1024
"""The maximum size of a request in bytes."""


@dataclass(frozen=True)
class Caller:
    """Who calls an operation: the home as this person sees it, her name, and the server's jobs.

    ``sees_all`` is true for somebody who may see the jobs of others.  ``scopes`` are those of her token (None: all).
    ``user_id`` is her ID, or None for the owner of the home.
    """

    weft: Weft
    name: str
    jobs: Jobs
    sees_all: bool = False
    scopes: Scopes = None
    user_id: int | None = None

    @property
    def owner(self) -> str | None:
        """The person whose jobs the caller may see, or None for those of all."""
        return None if self.sees_all else self.name


Limit = Annotated[int, Field(ge=1, le=1_000, description="The maximum number of items.")]
Dialect = Annotated[
    Literal["postgres", "duckdb", "snowflake", "bigquery", "tsql"] | None,
    Field(description="The dialect of the text, if it is not Spark's."),
]
QueryName = Annotated[
    str, Field(min_length=1, max_length=100, pattern=r"^[\w:][\w.\-:]*$", description="The name, or `id:` and the id.")
]
Name = Annotated[str, Field(min_length=1, max_length=100, description="The name.")]
AfterName = Annotated[
    str, Field(max_length=100, description="Only items after this one, from `next` of the page before.")
]
Id = Annotated[int, Field(ge=0, le=2**62, description="The id.")]
Sql = Annotated[str, Field(min_length=1, max_length=1_000_000, description="The text of the query.")]
Instant = Annotated[str, Field(max_length=60, description="An instant in ISO 8601; without an offset, in UTC.")]
Interval = Annotated[str, Field(max_length=60, description="A length of time, such as `10m` or `1h30m`.")]


@dataclass(frozen=True)
class Operation:
    """An operation.  ``call`` takes an acting ``Weft`` or a ``Caller``, then the parameters, and returns JSON.

    A ``slow`` operation may need the write lease or Spark.  It runs as a job: after two seconds, the response is 202
    with the address of the job.  A ``brief`` operation waits at most for the lease, not for slow operations.
    """

    method: Method
    path: str
    call: Callable[..., object]
    area: str
    right: Right = "read"
    status: Literal[200, 201] = 200
    slow: bool | None = None
    brief: bool = False
    errors: Sequence[type[WeftError]] = CHANGING

    @property
    def name(self) -> str:
        """The name of the operation, which clients may use as the name of a function."""
        return self.call.__name__

    @property
    def is_slow(self) -> bool:
        """Whether the operation runs as a job."""
        return self.method != "GET" if self.slow is None else self.slow

    @cached_property
    def summary(self) -> str:
        """The first line of the docstring, without its full stop."""
        return (inspect.getdoc(self.call) or "").split("\n")[0].rstrip(".")

    @cached_property
    def details(self) -> str:
        """The rest of the docstring."""
        return " ".join((inspect.getdoc(self.call) or "").split("\n")[1:]).strip()

    @cached_property
    def parameters(self) -> Mapping[str, inspect.Parameter]:
        """The parameters of the request, without the rows."""
        given = list(inspect.signature(self.call).parameters.items())[1:]
        return {name: each for name, each in given if self._hints[name] is not Rows}

    def run(self, caller: Caller, **parameters: object) -> object:
        """Run the operation."""
        wants_caller = next(iter(self._hints.values())) is Caller
        rows = parameters.get("rows")
        with rows.stream if isinstance(rows, Rows) else nullcontext():
            return self.call(caller if wants_caller else caller.weft, **parameters)

    @cached_property
    def takes_rows(self) -> bool:
        """Whether the body of the request has rows."""
        return Rows in self._hints.values()

    @cached_property
    def returns(self) -> Literal["list", "array", "object"]:
        """The kind of the value: a page of a list, an array, or an object."""
        if self._hints["return"] != Fields:
            return "array"
        return "list" if self.name.startswith("list_") else "object"

    @cached_property
    def in_path(self) -> frozenset[str]:
        """The parameters in the path."""
        return frozenset(_IN_PATH.findall(self.path))

    @cached_property
    def in_body(self) -> frozenset[str]:
        """The parameters in the body, as fields of a JSON object."""
        if self.method in ("GET", "DELETE") or self.takes_rows:
            return frozenset()
        return frozenset(self.parameters) - self.in_path

    @cached_property
    def model(self) -> type[BaseModel]:
        """The model that checks the parameters."""
        return self._model_of(self.parameters)

    def body_model(self) -> type[BaseModel]:
        """Return the model of the JSON object in the body."""
        return self._model_of({name: each for name, each in self.parameters.items() if name in self.in_body})

    def _model_of(self, parameters: Mapping[str, inspect.Parameter]) -> type[BaseModel]:
        fields: dict[str, Any] = {
            name: (self._hints[name], ... if each.default is each.empty else each.default)
            for name, each in parameters.items()
        }
        return create_model(self.name, __config__=ConfigDict(extra="forbid", strict=True), **fields)

    @cached_property
    def _hints(self) -> dict[str, Any]:
        return get_type_hints(self.call, include_extras=True)


def listed(items: Sequence[object], limit: int, key: Callable[[int], object]) -> Fields:
    """Return a page of a list.  ``items`` has one item more than ``limit`` if another page follows.

    ``key`` returns what the next request must give as ``after``, from the number of the last item.
    """
    more = len(items) > limit
    return {"items": list(items[:limit]), "next": key(limit - 1) if more else None}
