"""Serialize a plan and a query's constants for the catalog, and verify the plan after deserialization.

The form is JSON with its own format number (``algebra.stored``).  The signature of a plan is a hash of the form.  Two
queries therefore share a plan exactly if they differ only in constants and names.  The verification rejects a form that
no longer yields the same query.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from typing import Any, Final, TypeAlias

from weft.algebra.scalar import Literal
from weft.algebra.schema import INTEGRAL, DataType, TableSchema
from weft.algebra.stored import FORMAT as QUERY_FORMAT
from weft.algebra.stored import TableKey, restored, stored
from weft.errors import DerivationError, PlanMismatch
from weft.planning.plan import Plan

FORMAT: Final = 1
JsonValue: TypeAlias = "str | int | float | bool | list[str | int] | None"


@dataclass(frozen=True)
class StoredForm:
    """The serialized plan of a query (``body``), with its ``signature`` and with the query's constants and names.

    ``names`` are the query's range variables, in the order of t1, t2 … in the plan.  With these names, a tick that runs
    only this query runs the SQL that ``explain`` prints.
    """

    signature: str
    body: str
    parameters: tuple[tuple[str, JsonValue], ...]
    names: tuple[str, ...]


def stored_form(plan: Plan) -> StoredForm:
    """Return the serialized plan, with the constants and names of the query."""
    body = _body(plan)
    return StoredForm(_signature(body), body, tuple(map(stored_parameter, plan.values)), plan.names)


def _body(plan: Plan, query_format: int = QUERY_FORMAT) -> str:
    query = json.loads(stored(plan.shape.lifted, query_format))
    return json.dumps({"format": FORMAT, "from_now": plan.from_now, "query": query}, separators=(",", ":"))


def _signature(body: str) -> str:
    return hashlib.sha256(body.encode()).hexdigest()[:16]


def signature(plan: Plan) -> str:
    """Return a hash that is equal for two queries exactly if they differ only in constants and names."""
    return _signature(_body(plan))


def restored_plan(form: str, expected: str, tables: Iterable[TableSchema]) -> Plan:
    """Return the plan of the serialized form ``form``, with the current schemas ``tables``.

    Raise PlanMismatch if the form has another format, if a table or column is missing, or if the signature is not
    ``expected``.
    """
    by_key: dict[TableKey, TableSchema] = {(table.source, table.id): table for table in tables}
    try:
        body = json.loads(form)
        if body.get("format") != FORMAT:
            raise DerivationError(f"the plan has format {body.get('format')}, but this version of Weft reads {FORMAT}")
        plan = Plan(restored(json.dumps(body["query"]), by_key), (), body["from_now"])
    except (DerivationError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise PlanMismatch(f"the stored plan {expected} cannot be read: {error}") from error
    found = _signature(_body(plan, body["query"]["format"]))
    if found != expected:
        raise PlanMismatch(f"the stored plan {expected} reads back as the plan {found} of another query")
    return plan


def stored_parameter(value: Literal) -> tuple[str, JsonValue]:
    """Serialize a constant for the catalog as the text of its type and its value in JSON."""
    raw = value.value
    if isinstance(raw, bytes):
        return str(value.type), raw.hex()
    if isinstance(raw, tuple):
        return str(value.type), list(raw)
    return str(value.type), str(raw) if isinstance(raw, (Decimal, float)) else raw


def restored_values(constants: Iterable[tuple[str, JsonValue]]) -> list[Any]:
    """Return the values of constants without ``Literal`` objects, for speed.  A tick reads every constant of every
    query.
    """
    return [raw if kind in _STORED_UNCHANGED else restored_parameter(kind, raw).value for kind, raw in constants]


_STORED_UNCHANGED: Final = frozenset((*INTEGRAL, "STRING", "BOOLEAN", "TIMESTAMP", "DATE", "INTERVAL"))
_constant_type: Final = cache(DataType.of_expression)


def restored_parameter(type_name: str, raw: JsonValue) -> Literal:
    """Convert a result of ``stored_parameter`` back to the constant."""
    type = _constant_type(type_name)
    if isinstance(raw, list):
        return Literal(tuple(raw), type)
    if raw is None or type.name not in ("DECIMAL", "DOUBLE", "FLOAT", "BINARY"):
        return Literal(raw, type)
    if type.name == "BINARY":
        return Literal(bytes.fromhex(str(raw)), type)
    return Literal(Decimal(str(raw)) if type.name == "DECIMAL" else float(str(raw)), type)
