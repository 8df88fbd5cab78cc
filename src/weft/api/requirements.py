"""The right that each public method needs, declared at the method, checked and logged before the method runs.

``@requires(Right.OWN, query="name")`` means: the caller of the method must own the query that the argument ``name``
names.  An object that she may not see is refused like one that does not exist.  A method without the name of an object
returns only what its caller may see.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property, wraps
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar, cast

from weft.api.arguments import own_user, texts
from weft.catalog.records import RESULTS
from weft.catalog.seen import not_allowed
from weft.errors import WeftError
from weft.rights.policy import Thing
from weft.rights.principal import OWNER, Right

if TYPE_CHECKING:
    from weft.catalog.seen import Seen
    from weft.execution.home import OpenHome

ArgumentKind = Literal["query", "table", "view", "relation", "channel", "saved"]
"""What an argument names.  A ``relation`` is a table, a view, or ``results.`` and the name of a query."""
_UNLOGGED: Final = frozenset({Right.ANY, Right.READ, Right.SELF})
_LOGGED: Final = ("name", "names", "table", "user", "role", "right", "about", "load_id", "ids", "token_id", "link_id")
"""The arguments that the log shows, if a method has them.  It never shows rows, texts of queries or secrets."""
Method = TypeVar("Method", bound=Callable[..., Any])


@dataclass(frozen=True)
class Requirement:
    """What a method needs: a right, and the arguments that name the objects to which it is needed."""

    right: Right
    arguments: Mapping[str, ArgumentKind]
    logged: bool
    logging: tuple[str, ...]
    method: Callable[..., Any]

    @cached_property
    def _signature(self) -> inspect.Signature:
        return inspect.signature(self.method)

    def named(self, *given: Any, **options: Any) -> Mapping[str, Any]:
        """Return the arguments of a call by name."""
        return self._signature.bind(*given, **options).arguments

    def check(self, home: OpenHome, arguments: Mapping[str, Any]) -> None:
        """Raise NotAllowed or NotFound if the principal of the home may not call the method."""
        seen = home.seen()
        seen.require(self.right)
        for argument, kind in self.arguments.items():
            given = arguments.get(argument)
            for name in () if given is None else texts(given):
                _require(seen, kind, name, self.right)

    def about(self, arguments: Mapping[str, Any]) -> str | None:
        """Return the objects of a call for the log.  Of a channel it shows the kind only: a URL can be a secret."""
        channels = [key for key, kind in self.arguments.items() if kind == "channel"]
        keys = dict.fromkeys((*self.arguments, *self.logging, *_LOGGED))
        words = [_shown(arguments.get(key)) for key in keys if key not in channels]
        words += [f"{each.partition(':')[0]}:" for key in channels for each in texts(arguments.get(key) or ())]
        return " ".join(filter(None, words)) or None


def _shown(given: object) -> str:
    if isinstance(given, list | tuple | set | frozenset):
        return ", ".join(map(str, given))
    return str(given) if isinstance(given, str | int) else ""


def requires(
    right: Right,
    *,
    query: str | None = None,
    table: str | None = None,
    view: str | None = None,
    relation: str | None = None,
    channel: str | None = None,
    saved: str | None = None,
    logged: bool | None = None,
    logging: tuple[str, ...] = (),
) -> Callable[[Method], Method]:
    """Declare the right that a method needs, and the arguments that name its objects.

    A call is logged by default if the right is not one to read.  ``logging`` are further arguments that the log shows.
    """
    given = {query: "query", table: "table", view: "view", relation: "relation", channel: "channel", saved: "saved"}
    arguments = {name: cast("ArgumentKind", kind) for name, kind in given.items() if name is not None}

    def declared(method: Method) -> Method:
        is_logged = right not in _UNLOGGED if logged is None else logged
        requirement = Requirement(right, arguments, is_logged, logging, method)

        @wraps(method)
        def checked(self: Any, *positional: Any, **options: Any) -> Any:
            home: OpenHome = self.opened
            if home.principal == OWNER and not requirement.logged:
                return method(self, *positional, **options)
            by_name = requirement.named(self, *positional, **options)
            with _logged(home, requirement, by_name):
                requirement.check(home, by_name)
                return method(self, *positional, **options)

        checked.requirement = requirement  # type: ignore[attr-defined]
        return cast("Method", checked)

    return declared


def requirement_of(method: object) -> Requirement | None:
    """Return the requirement of a method, or None for a method without a declaration."""
    return getattr(method, "requirement", None)


@contextmanager
def _logged(home: OpenHome, requirement: Requirement, arguments: Mapping[str, Any]) -> Iterator[None]:
    """Record the action of the ``with`` block and its outcome.  A home that never had users keeps no log."""
    if not requirement.logged or not home.catalog.users.exist():
        yield
        return
    audit, user = home.catalog.audit, home.principal.name or own_user()
    action, about = requirement.method.__name__, requirement.about(arguments)
    key = audit.begin(home.principal, user, action, about, home.clock())
    try:
        yield
    except BaseException as error:
        with suppress(WeftError):  # the error of the action is more important
            audit.end(key, error.message if isinstance(error, WeftError) else type(error).__name__)
        raise
    audit.end(key, "done")


def _require(seen: Seen, kind: ArgumentKind, name: str, right: Right) -> None:
    match kind:
        case "query":
            seen.query(name, right)
        case "table":
            seen.table(name, right)
        case "view":
            seen.view(name, right)
        case "relation":
            _require_relation(seen, name, right)
        case "channel":
            require_channel(seen, name)
        case "saved":
            seen.saved(name, right)


def _require_relation(seen: Seen, name: str, right: Right) -> None:
    scheme, dot, query = name.partition(".")
    if dot and scheme.lower() == RESULTS:
        seen.query(query, right)
    else:
        seen.table(name, right)


def require_channel(seen: Seen, channel: str) -> None:
    """Raise NotAllowed if the principal may not add channels of this kind.  Everybody may have the cursor."""
    kind = channel.strip().partition(":")[0].lower()
    if kind != "cursor" and not seen.may(Right.CHANNEL, Thing("channel", kind)):
        raise not_allowed(seen.rights, Right.CHANNEL, f"{kind}: channels")
