"""The OpenAPI 3.1 document, made from the list of operations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from weft.web.api_v1.operation import ROW_TYPES, Operation
from weft.web.problems import MEDIA_TYPE, status_of

_PROBLEM: Final[dict[str, Any]] = {
    "type": "object",
    "description": "What is wrong, where, and what to do instead (RFC 9457).",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "where": {"type": "string", "description": "The place: a line and column, a file, or a name."},
        "excerpt": {"type": "string", "description": "The text at the place."},
        "hint": {"type": "string", "description": "What to do instead."},
        "reasons": {"type": "array", "description": "All reasons, if there are several.", "items": {"type": "object"}},
        "errors": {"type": "array", "description": "The invalid parameters.", "items": {"type": "object"}},
    },
}
_JOB: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["id", "what", "state", "progress", "began", "ended", "result", "problem"],
    "properties": {
        "id": {"type": "string"},
        "what": {"type": "string"},
        "state": {"enum": ["running", "done", "failed", "cancelled"]},
        "progress": {"type": "string"},
        "began": {"type": "string"},
        "ended": {"type": ["string", "null"]},
        "result": {"type": ["object", "array", "null"]},
        "problem": {"anyOf": [{"$ref": "#/components/schemas/Problem"}, {"type": "null"}]},
    },
}
_LIST: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["items", "next"],
    "properties": {
        "items": {"type": "array", "items": {"type": "object"}},
        "next": {"description": "The value of `after` for the next page, or null at the end."},
    },
}
_WORDS: Final = {
    400: "The request is malformed.",
    401: "The token is missing or invalid.",
    403: "The request comes from another server's page, or the right is missing.",
    404: "It does not exist, or you may not see it.",
    409: "Another object or state prevents this.",
    413: "The body is too large.",
    415: "The body is of another type.",
    422: "Weft refuses this, and says why.",
    503: "Another process works on the home.  Try again.",
}


def document(operations: Iterable[Operation]) -> dict[str, Any]:
    """Return the OpenAPI document of the operations."""
    paths: dict[str, dict[str, Any]] = {}
    for each in operations:
        paths.setdefault(each.path, {})[each.method.lower()] = _described(each)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Weft",
            "version": "1",
            "description": "Standing SQL queries: each answer reaches you once.",
        },
        "servers": [{"url": "/api/v1"}],
        "paths": paths,
        "components": {
            "schemas": {"Problem": _PROBLEM, "Job": _JOB, "List": _LIST},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}, {}],
    }


def _described(operation: Operation) -> dict[str, Any]:
    described: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "tags": [operation.area],
        "parameters": list(_parameters(operation)),
        "responses": _responses(operation),
        "x-weft-right": operation.right,
    }
    if operation.details:
        described["description"] = operation.details
    if operation.takes_rows:
        rows = {kind: {"schema": {"type": "string"}} for kind in ROW_TYPES}
        described["requestBody"] = {"required": True, "content": rows}
    elif operation.in_body:
        schema = inlined(operation.body_model().model_json_schema())
        content = {"application/json": {"schema": schema}}
        described["requestBody"] = {"required": bool(schema.get("required")), "content": content}
    return described


def _parameters(operation: Operation) -> Iterable[dict[str, Any]]:
    properties = inlined(operation.model.model_json_schema()).get("properties", {}) if operation.parameters else {}
    for name, parameter in operation.parameters.items():
        if name in operation.in_body:
            continue
        schema = {key: value for key, value in properties[name].items() if key not in ("description", "title")}
        in_path = name in operation.in_path
        yield {
            "name": name,
            "in": "path" if in_path else "query",
            "required": in_path or parameter.default is parameter.empty,
            "schema": without_null(schema),
            "description": description_of(properties[name]),
        }


def description_of(schema: Mapping[str, Any]) -> str:
    """Return the description of a parameter, which may be that of one of its types."""
    parts = [schema, *schema.get("anyOf", ())]
    return next((str(each["description"]) for each in parts if "description" in each), "")


def without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a parameter in an address, where nothing can be written as null."""
    kinds = [each for each in schema.get("anyOf", ()) if each.get("type") != "null"]
    rest = {key: value for key, value in schema.items() if key != "anyOf" and not (key == "default" and value is None)}
    return {**kinds[0], **rest} if len(kinds) == 1 else rest if not kinds else schema


def inlined(schema: Any) -> Any:
    """Return a schema without titles, which only repeat the names."""
    if isinstance(schema, dict):
        return {
            key: {name: inlined(each) for name, each in value.items()} if key == "properties" else inlined(value)
            for key, value in schema.items()
            if not (key == "title" and isinstance(value, str))
        }
    if isinstance(schema, list):
        return [inlined(each) for each in schema]
    return schema


def _responses(operation: Operation) -> dict[str, Any]:
    value = operation.returns
    schema: dict[str, Any] = {"type": "array", "items": {"type": "object"}} if value == "array" else {"type": "object"}
    if value == "list":
        schema = {"$ref": "#/components/schemas/List"}
    responses: dict[str, Any] = {
        str(operation.status): {"description": "Done.", "content": {"application/json": {"schema": schema}}}
    }
    if operation.is_slow:
        responses["202"] = {
            "description": "It takes longer than two seconds: ask for the job.",
            "headers": {"Location": {"schema": {"type": "string"}}},
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Job"}}},
        }
    problem = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    for status in sorted({*_STATUSES, *(status_of(each("")) for each in operation.errors)}):
        responses[str(status)] = {"description": _WORDS[status], "content": problem}
    return responses


_STATUSES: Final = (400, 401, 403, 413, 415, 503)
