"""Make the routes of the operations: read and check the parameters, run the operation, and render its value."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from http import HTTPStatus
from typing import IO, Any, Final

from pydantic import ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from weft.api.arguments import own_user
from weft.faults import isolated_error
from weft.rights.principal import OWNER, Right
from weft.web.api_v1.operation import LARGEST, ROW_TYPES, Caller, Operation, Rows
from weft.web.api_v1.operations.jobs import job_json
from weft.web.callers import principal_of
from weft.web.jobs import Value
from weft.web.operation_names import named_operations
from weft.web.problems import problem, problem_of, problem_response
from weft.web.security import is_foreign
from weft.web.site import Site

_WHOLE: Final = re.compile(r"-?(0|[1-9][0-9]{0,18})")
_FLAGS: Final = {"true": True, "false": False}
PATIENCE_SECONDS: Final = 2.0
"""How long a request waits for its job."""
_IN_MEMORY: Final = 1 << 20
_TITLES: Final = {401: "not signed in", 403: "not allowed"}
Endpoint = Callable[[Request], Awaitable[Response]]


class Unfit(Exception):
    """A request that does not fit its operation.  ``document`` is the problem document."""

    def __init__(self, status: int, detail: str, headers: Mapping[str, str] | None = None, **more: object) -> None:
        super().__init__(detail)
        self.headers = headers
        self.document = problem(status, _TITLES.get(status, "invalid request"), detail, **more)


def routes(site: Site, operations: Iterable[Operation]) -> list[Route]:
    """Return one route for each path."""
    by_path: dict[str, dict[str, Operation]] = {}
    for each in operations:
        by_path.setdefault(each.path, {})[each.method] = each
    return [Route(path, _endpoint(site, methods), methods=list(methods)) for path, methods in by_path.items()]


def _endpoint(site: Site, methods: Mapping[str, Operation]) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        operation = methods["GET" if request.method == "HEAD" else request.method]
        try:
            require_own_origin(request)
            caller = await run_in_threadpool(caller_of, site, request)
            if operation.takes_rows:  # they are received only from those who may load them
                await run_in_threadpool(caller.weft.require_load, request.path_params["table"])
            parameters = await _parameters(request, operation)
            return await _answer(site, caller, operation, parameters)
        except Unfit as error:
            return problem_response(error.document, error.headers)
        except Exception as error:  # noqa: BLE001 - a defect in one operation must not stop the server
            doing = f"{operation.method} /api/v1{operation.path}"
            plain = isolated_error(error, site.weft.home / "logs", lambda: site.weft.clock(), doing)
            return problem_response(problem_of(plain, named_operations))

    return endpoint


def caller_of(site: Site, request: Request, door: str = "api") -> Caller:
    """Return who sent the request: by a token, a session, or as the owner of a home without users.

    Raise Unfit for a missing, unknown or expired token.
    """
    principal = principal_of(site, request, door)
    if principal == OWNER:
        return Caller(site.weft, own_user(), site.jobs, sees_all=True)
    if principal is None or principal.name is None:
        has_token = "authorization" in request.headers
        what = "the token is unknown, withdrawn or expired" if has_token else "this needs a token"
        source = "a token from `weft token create`" if site.weft.accounts.in_use() else "the key in the file page.key"
        hint = f"Send the header `Authorization: Bearer TOKEN` with {source}."
        raise Unfit(401, what, {"WWW-Authenticate": "Bearer"}, hint=hint)
    weft = site.weft.acting_as(principal)
    sees_all = principal.in_scope(Right.ADMIN) and weft.accounts.me().role == "admin"
    return Caller(weft, principal.name, site.jobs, sees_all, principal.scopes, principal.user_id)


def require_own_origin(request: Request) -> None:
    """Refuse a request from the page of another server."""
    if is_foreign(request):
        raise Unfit(403, "this request comes from a page of another server")


async def _parameters(request: Request, operation: Operation) -> dict[str, Any]:
    given: dict[str, Any] = _of_address(request, operation)
    stream: IO[bytes] | None = None
    if operation.takes_rows:
        kind = _media_type(request)
        if kind not in ROW_TYPES:
            raise Unfit(415, f"the rows must be of the type {' or '.join(ROW_TYPES)}")
        stream = await _body(request)
    elif operation.in_body:
        fields = await _fields(request)
        unknown = sorted(set(fields) - operation.in_body)
        if unknown:
            raise Unfit(400, f"the body has unknown fields: {', '.join(unknown)}")
        given |= fields
    if any(map(_has_nul, given.values())):
        raise Unfit(400, "a parameter contains the character NUL")
    try:
        checked = operation.model.model_validate(given)
    except ValidationError as error:
        raise Unfit(400, "a parameter is missing or invalid", errors=list(_faults(error))) from None
    values = {name: getattr(checked, name) for name in operation.parameters}
    return values if stream is None else {**values, "rows": Rows(stream, kind)}


def _of_address(request: Request, operation: Operation) -> dict[str, Any]:
    """Return the parameters in the path and in the query string, as values of their types."""
    properties = operation.model.model_json_schema()["properties"] if operation.parameters else {}
    given = {name: _in_path(name, value, properties[name]) for name, value in request.path_params.items()}
    for name, text in request.query_params.multi_items():
        if name not in properties or name in operation.in_path or name in operation.in_body:
            raise Unfit(400, f"{name!r} is not a parameter of this operation")
        if name in given:
            raise Unfit(400, f"the parameter {name!r} is given twice")
        given[name] = _typed(text, properties[name])
    return given


def _in_path(name: str, value: object, schema: Mapping[str, Any]) -> object:
    """The addresses of pages have the ids of queries and saved queries, and those of the API have names."""
    if isinstance(value, int):
        return f"id:{value}" if name in ("query", "saved") else value
    return _typed(str(value), schema)


def _has_nul(value: object) -> bool:
    if isinstance(value, dict):
        return any(map(_has_nul, (*value, *value.values())))
    return "\0" in value if isinstance(value, str) else isinstance(value, list) and any(map(_has_nul, value))


def _typed(text: str, schema: Mapping[str, Any]) -> object:
    kinds = {each.get("type") for each in schema.get("anyOf", [schema])}
    if "integer" in kinds and _WHOLE.fullmatch(text):
        return int(text)
    if "boolean" in kinds:
        return _FLAGS.get(text, text)
    return text


async def _fields(request: Request) -> dict[str, Any]:
    """Return the JSON object in the body, which may be empty."""
    stream = await _body(request)
    with stream:
        raw = stream.read()
    if raw and _media_type(request) != "application/json":
        raise Unfit(415, "the body must be of the type application/json")
    try:
        fields = json.loads(raw) if raw else {}
        raw.decode()
    except (ValueError, RecursionError):
        raise Unfit(400, "the body is not JSON in UTF-8") from None
    if not isinstance(fields, dict):
        raise Unfit(400, "the body is not a JSON object")
    return fields


async def _body(request: Request) -> IO[bytes]:
    stream: IO[bytes] = tempfile.SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115
    size = 0
    try:
        async for part in request.stream():
            size += len(part)
            if size > LARGEST:
                raise Unfit(413, f"the request has more than {LARGEST:,} bytes")
            stream.write(part)
    except ClientDisconnect:
        raise Unfit(400, "the request ended in the middle of its body") from None
    stream.seek(0)
    return stream


def _media_type(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def _faults(error: ValidationError) -> Iterable[dict[str, str]]:
    for each in error.errors(include_url=False, include_context=False, include_input=False):
        yield {"where": ".".join(map(str, each["loc"])), "message": each["msg"]}


def _in_one_state(site: Site, work: Callable[[], Any]) -> Any:
    with site.weft.one_state():
        return work()


async def _answer(site: Site, caller: Caller, operation: Operation, parameters: Mapping[str, Any]) -> Response:
    work = partial(operation.run, caller, **parameters)
    if not operation.is_slow:
        return JSONResponse(await run_in_threadpool(_in_one_state, site, work), operation.status)
    job = caller.jobs.start(
        operation.summary,
        caller.name,
        "/jobs",
        lambda _: Value(work()),
        brief=operation.brief,
        scopes=caller.scopes,
        user_id=caller.user_id,
        reach=caller.weft.accounts.reach,
        of_api=True,
    )
    if not await run_in_threadpool(job.wait, PATIENCE_SECONDS):
        return JSONResponse(job_json(job), HTTPStatus.ACCEPTED, {"Location": f"/api/v1/jobs/{job.job_id}"})
    if job.error is not None:
        raise job.error
    if not isinstance(job.outcome, Value):
        raise Unfit(409, "the job was cancelled")
    return JSONResponse(job.outcome.value, operation.status)
