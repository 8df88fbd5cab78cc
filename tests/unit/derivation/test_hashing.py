"""A tree's hash is worked out once; what is equal still has one hash, also after a change or a copy."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest

from netnews import TABLES
from weft.algebra.relation import Scan, Select
from weft.planning.plan import plan

TEXT = "SELECT m.msgid FROM msgs m WHERE m.subject > 'c' AND EXISTS (SELECT 1 FROM msgs r WHERE r.inreplyto = m.msgid)"


def test_equal_trees_have_one_hash_whichever_was_asked_first() -> None:
    one, two = plan(TEXT, TABLES).query.input, plan(TEXT, TABLES).query.input
    assert one is not two
    assert hash(one) == hash(two) == hash(copy.copy(one)) == hash(copy.deepcopy(one))
    assert one == two == copy.copy(one)


def test_a_changed_tree_does_not_keep_the_hash_of_what_it_was_made_from() -> None:
    scan = Scan(TABLES["msgs"], "m")
    before = hash(scan)
    other = replace(scan, alias="n")
    assert hash(other) != before
    assert {scan: 1, other: 2} == {Scan(TABLES["msgs"], "n"): 2, Scan(TABLES["msgs"], "m"): 1}


def test_the_hash_of_a_tree_is_worked_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    tree = plan(TEXT, TABLES).query.input
    assert isinstance(tree, Select)
    known = hash(tree)
    monkeypatch.setattr(type(tree.predicate), "__hash__", lambda _: pytest.fail("it was worked out again"))
    assert hash(tree) == known
