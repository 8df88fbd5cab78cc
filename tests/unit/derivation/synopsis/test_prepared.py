"""What a semantics does not tell apart is written alike."""

from __future__ import annotations

from weft.algebra.formula import (
    ALWAYS,
    And,
    Atom,
    Defined,
    Definition,
    Distinct,
    Fixpoint,
    Not,
    Once,
    Or,
    Previous,
    Since,
    Truth,
)
from weft.derivation.synopsis.prepared import prepared

P, Q = Atom("p", ()), Atom("q", ())


def test_what_a_negation_excludes_is_excluded_however_often_it_is_there() -> None:
    """¬p since1 q, q twice and p once: by figure 2's difference one q would be left."""
    since = Since(ALWAYS, Not(P), Q, "first")
    assert prepared(since, "minmax") == Since(ALWAYS, Not(P), And(Distinct(Q), Not(P)))
    assert prepared(since, "set") == Since(ALWAYS, Not(P), And(Q, Not(P)))
    assert prepared(since, "bag") == since


def test_true_since_is_once() -> None:
    assert prepared(Since(ALWAYS, Truth(True), Q, "second"), "bag") == Once(ALWAYS, Q, "second")


def test_a_fixpoint_is_a_connective_only_where_it_counts_as_that_does() -> None:
    """By minimum and maximum the greatest count of q stays; that of ◇1 q is 1."""
    body = Or(Q, Previous(ALWAYS, Defined("x", ())))
    fixpoint = Fixpoint((Definition("x", (), body),), "x", ())
    assert prepared(fixpoint, "minmax") == fixpoint
    assert prepared(fixpoint, "bag") == Once(ALWAYS, Q, "first")
    assert prepared(fixpoint, "set") == Once(ALWAYS, Q)
