"""A stored synopsis read again."""

import hashlib
import json

import pytest

from weft.algebra.schema import BIGINT, TIMESTAMP, Column, TableSchema
from weft.errors import PlanMismatch
from weft.planning.formula_plan import formula_synopsis
from weft.planning.synopsis_plan import restored_synopsis

P = TableSchema(1, "p", (Column(1, "x", BIGINT), Column(2, "ts", TIMESTAMP)))


@pytest.mark.parametrize("text", ["ONCE[1m,2m] p(x)", "ONCE[0,2m] p(x)", "ONCE p(x)"])
def test_a_stored_synopsis_is_read_back(text: str) -> None:
    plan = formula_synopsis(text, "monpoly", {"p": P})
    found = restored_synopsis(plan.body, plan.signature, [P])
    assert found.stored == plan.stored
    assert found.signature == plan.signature


def test_one_that_was_installed_before_since_could_be_strict_is_read() -> None:
    event = '["Atom","p",["Tuple",["Variable","x",["Type","BIGINT"]]]]'
    body = (
        f'{{"synopsis":1,"language":"monpoly","formula":["Since",["Interval",0,120000000],["Not",{event}],{event},"any"],'
        '"columns":["Tuple",["Variable","x",["Type","BIGINT"]]],"semantics":"set",'
        '"predicates":{"p":[["table",1],[[1,"BIGINT"],[2,"TIMESTAMP"]]]},"points":null,'
        '"relations":["0672cee11cd8deb98d11"]}'
    )
    now = formula_synopsis("(NOT p(x)) SINCE[0,2m] p(x)", "monpoly", {"p": P})
    assert restored_synopsis(body, hashlib.sha256(body.encode()).hexdigest()[:16], [P]).stored == now.stored


def test_one_whose_relations_had_other_columns_is_not_read() -> None:
    # As it was installed when each instant of a window was stored, before runs of them were.
    body = (
        '{"synopsis":1,"language":"monpoly","formula":["Once",["Interval",60000000,120000000],'
        '["Atom","p",["Tuple",["Variable","x",["Type","BIGINT"]]]],"any"],'
        '"columns":["Tuple",["Variable","x",["Type","BIGINT"]]],"semantics":"set",'
        '"predicates":{"p":[["table",1],[[1,"BIGINT"],[2,"TIMESTAMP"]]]},"points":null,'
        '"relations":["5ff7976289826f5f4493"]}'
    )
    signature = hashlib.sha256(body.encode()).hexdigest()[:16]
    now = formula_synopsis("ONCE[1m,2m] p(x)", "monpoly", {"p": P})
    assert json.loads(now.body) | {"relations": []} == json.loads(body) | {"relations": []}
    with pytest.raises(PlanMismatch, match="another version of Weft installed the query") as refused:
        restored_synopsis(body, signature, [P])
    assert refused.value.hint is not None
    assert "install it again" in refused.value.hint
