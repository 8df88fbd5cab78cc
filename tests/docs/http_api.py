"""The page docs/reference/http-api.md: the operations of the HTTP API, made from their list.

``make bless`` writes the page. ``test_http_api.py`` checks the page.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

from weft.web.api_v1.openapi import document
from weft.web.api_v1.operation import ROW_TYPES, Operation
from weft.web.api_v1.operations import OPERATIONS

HEAD = """\
# HTTP API

`weft serve --http` offers these operations below `/api/v1`. The document `/api/v1/openapi.json` (OpenAPI 3.1)
describes the same operations for programs. [How to use the API](../how-to/http-api.md) has examples.

- A request has parameters in its address, or a JSON object as its body (fields in *italics*). Unknown parameters
  are refused.
- A list has at most `limit` items, and `next`: give it as `after` to get the next page. At the end, `next` is null.
- A query is named by its name, or by `id:` and its id, which never changes: `/queries/id:7`.
- An error is a problem document (RFC 9457, `application/problem+json`) with `detail`, and where it helps `where`,
  `excerpt`, `hint` and `reasons`. What you may not see is 404 like what does not exist.
- An operation that needs more than two seconds answers 202 with a job and its address in `Location`. Ask for the
  job until its `state` is not `running`; `result` or `problem` is what the operation would have answered.

| status | |
| --- | --- |
| 400 | a parameter is missing, unknown or invalid: `errors` lists them |
| 401, 403 | the token is missing or invalid; the request comes from the page of another server |
| 404 | there is no such object, or you may not see it |
| 409 | another object or a state prevents the change |
| 413, 415 | the body is too large, or of another type |
| 422 | Weft refuses the request, and says why and what to do instead |
| 503 | another process holds the lease of the home: try again after `Retry-After` seconds |
"""

TAIL = """\

## Formats

| address | |
| --- | --- |
| `/queries/ID/answers.csv`, `/queries/ID/answers.jsonl` | the answers as CSV or JSON lines, with `after` and `limit` |
| `/queries/ID/answers.atom` | a feed with the latest 50 answers; the id of an entry never changes |
| `/feeds/NAME.atom` | the feed of the channel `feed:NAME`; with a link, read `/shared/SECRET/feeds/NAME.atom` |
| `/queries.ics` | a calendar with the instants at which queries are next due |
| `/queries.json`, `/tables/NAME.json`, `/audit.json`, … | each list and object of the page as the API gives it |
| `/metrics` | figures in the text format of Prometheus |
| `/healthz` | `ok`, or 503 if the catalog cannot be read |
"""


def page() -> str:
    """The page in Markdown."""
    lines = [HEAD]
    for area, operations in groupby(OPERATIONS, lambda each: each.area):
        lines += [f"## {area.capitalize()}", "", "| operation | needs | |", "| --- | --- | --- |"]
        lines += [f"| {cells} |" for cells in map(_row, operations)]
        lines.append("")
    return "\n".join(lines).rstrip("\n") + "\n" + TAIL


def _row(operation: Operation) -> str:
    described: dict[str, Any] = document([operation])["paths"][operation.path][operation.method.lower()]
    address = [each for each in described["parameters"] if each["in"] == "query"]
    words = ". ".join(part for part in (operation.summary, operation.details.rstrip(".")) if part)
    parts = [f"{words}.", *_listed(address), *_fields(described.get("requestBody"))]
    text = " ".join(part.replace("|", "\\|") for part in parts)
    return f"`{operation.method} {operation.path}` | {operation.right} | {text}"


def _listed(parameters: Iterable[dict[str, Any]]) -> Iterator[str]:
    named = [_named(each["name"], each["schema"], each["required"], "`") for each in parameters]
    if named:
        yield f"Parameters: {', '.join(named)}."


def _fields(body: dict[str, Any] | None) -> Iterator[str]:
    if body is None:
        return
    content = body["content"].get("application/json")
    if content is None:
        yield f"Body: {' or '.join(f'`{kind}`' for kind in ROW_TYPES)}."
        return
    schema = content["schema"]
    required = schema.get("required", ())
    named = [_named(name, each, name in required, "*") for name, each in schema["properties"].items()]
    yield f"Body: {', '.join(named)}."


def _named(name: str, schema: dict[str, Any], required: bool, mark: str) -> str:
    default = schema.get("default")
    value = (
        f" = {str(default).lower() if isinstance(default, bool) else default}"
        if default not in (None, [], {}, "")
        else ""
    )
    return f"{mark}{name}{mark}{' (required)' if required else ''}{value}"
