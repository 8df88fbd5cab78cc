"""The running server keeps to its OpenAPI document, whatever is sent; hostile texts are refused."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import httpx2
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import Case, GenerationMode
from schemathesis.checks import CHECKS, load_all_checks

from hostile_texts import HOSTILE, planted
from weft.api.weft import Weft
from weft.rights.principal import SCOPES
from weft.web.api_v1.operations import OPERATIONS
from weft.web.serving import Address, page_served

EXAMPLES = 3
"""The number of valid and of invalid requests for each operation."""
load_all_checks()
LEFT_OUT = CHECKS.get_by_names(["positive_data_acceptance"])
"""A text that fits the schema need not be a query."""


@pytest.fixture
def token(filled: Weft) -> str:
    """A token that may do everything."""
    filled.accounts.add_user("root", "admin")
    return filled.accounts.create_token("root", scopes=SCOPES).secret


@pytest.fixture
def served(filled: Weft) -> Iterator[str]:
    """The address of a running server."""
    with page_served(filled, Address(port=0)) as address:
        yield address.url


def test_responses_keep_to_the_document(served: str, token: str) -> None:
    schema = schemathesis.openapi.from_url(f"{served}api/v1/openapi.json")
    tried, inside = 0, 0
    headers = {"Authorization": f"Bearer {token}"}
    for found in schema.get_all_operations():
        operation = found.ok()
        for mode in GenerationMode:

            @given(case=operation.as_strategy(generation_mode=mode))
            @settings(
                max_examples=EXAMPLES,
                deadline=None,
                database=None,
                derandomize=True,
                phases=[Phase.generate],
                suppress_health_check=list(HealthCheck),
            )
            def send(case: Case) -> None:
                nonlocal tried, inside
                tried += 1
                inside += case.call_and_validate(headers=headers, excluded_checks=LEFT_OUT).status_code != 401

            with suppress(Unsatisfiable):  # nothing is invalid for an operation without parameters
                send()
    assert tried > EXAMPLES * len(OPERATIONS)
    assert inside == tried, "the token is valid to the end"


DOORS = ("try", "backtest", "queries", "views", "queries/dear/preview")


def _ended(client: httpx2.Client, response: httpx2.Response) -> tuple[int, str]:
    """The status and the text of a response, or of the job that it names when the job has ended."""
    if response.status_code != 202:
        return response.status_code, response.text
    while (job := client.get(f"jobs/{response.json()['id']}").json())["state"] == "running":
        time.sleep(0.05)
    return (job["problem"] or {"status": 200})["status"], json.dumps(job)


def test_hostile_texts_are_refused(served: str, filled: Weft, tmp_path: Path) -> None:
    secret, written = tmp_path / "secret", tmp_path / "written"
    secret.write_text("the content of the file")
    headers = {"Authorization": f"Bearer {(filled.home / 'page.key').read_text()}"}
    with httpx2.Client(base_url=f"{served}api/v1", headers=headers) as client:
        for number, (name, text) in enumerate(HOSTILE.items()):
            sql = planted(text, str(secret), str(written))
            for path in ("explain", DOORS[number % len(DOORS)]):
                given = {"name": "hostile"} if path in ("queries", "views") else {}
                status, said = _ended(client, client.post(path, json={"sql": sql, **given}))
                assert status in (400, 422), (name, path, said)
                assert "the content of the file" not in said
        assert client.get("queries/hostile").status_code == 404
    assert not written.exists()
