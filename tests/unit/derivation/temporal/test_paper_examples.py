"""The derivations that the paper writes out (sections 4.2.3 and 4.3.3), as they are derived here."""

from __future__ import annotations

from collections.abc import Mapping

from shown_temporal import derivation_lines, tracked, words
from weft.algebra.relation import Join, Output, Project, Scan, Select
from weft.algebra.scalar import Call, ColumnRef, Literal, Now, PeriodOf, Scalar, call
from weft.algebra.schema import INT, STRING, TIMESTAMP, Column, TableSchema
from weft.algebra.temporal import Temporal, inputs
from weft.derivation.temporal.maintenance_plan import maintenance
from weft.derivation.temporal.refresh_terms import COMING, LEAVING
from weft.planning.temporal_words import Words

_LIFE = (Column(8, "valid_from", TIMESTAMP), Column(9, "valid_to", TIMESTAMP))
_TEXTS = tuple(Column(n + 2, name, STRING) for n, name in enumerate(("dept", "name", "office", "phone")))
R = Scan(TableSchema(1, "employees", (Column(1, "id", INT), *_TEXTS, *_LIFE), "valid_from", "valid_to"), "R")
S = Scan(tracked(2, "assignments", "id", "project", "supervisor"), "S")

Q = call("=", ColumnRef("R", "dept", STRING), Literal("Development", STRING))
DEVELOPERS = Project(Select(R, Q), "e", (Output("id", ColumnRef("R", "id", INT)),))
YEAR_AGO = Call("add_months", (Now(), Literal(-12, INT)), TIMESTAMP)
JOINED = call("=", ColumnRef("e", "id", INT), ColumnRef("S", "id", INT))
SINCE = call(">=", Call("period_start", (PeriodOf("e"),), TIMESTAMP), YEAR_AGO)
UNTIL = call("<", Call("period_end", (PeriodOf("e"),), TIMESTAMP), Now())
P = call("and", JOINED, SINCE, UNTIL)
V = Select(Join((DEVELOPERS, S)), P)
NAMES: Mapping[Temporal | Scalar, str] = {P: "p", Q: "q"}


def test_change_propagation_of_deletions() -> None:
    derived = maintenance(V).change([R.table], ["deletions"])
    u = "π_{id}(σ_{q}(∇R)) − π_{id}(σ_{q}(R − ∇R))"  # the paper subtracts from π(σ(R)), which has more rows
    u1 = f"π_{{id}}(σ_{{q}}(R)) ⋉ ({u})"
    u2 = f"{u1} − ({u})"
    assert derived.literal.deleted is not None and derived.literal.inserted is not None
    assert words(derived.literal.deleted, NAMES) == f"⋈_{{p}}({u1}, S)"
    assert words(derived.literal.inserted, NAMES) == f"⋈_{{p}}({u2}, S)"
    assert [step.rule for step in derived.trace] == ["c.9", "c.7", "4.3", "c.15", "c.16"]
    assert Words(NAMES).step(derived.trace[0]) == "(c.9) ∇ = σ_{q}(∇R)"


def test_refresh_takes_out_and_never_puts_in() -> None:
    derived = maintenance(V).refresh
    assert derived.literal.inserted is None
    assert isinstance(derived.literal.deleted, Select)
    turned = derived.literal.deleted.predicate
    assert words(derived.literal.deleted, {Q: "q", turned: "[¬p]_{t_now} ∧ [p]_t"}) == (
        "⋈_{[¬p]_{t_now} ∧ [p]_t}(π_{id}(σ_{q}(R)), S)"
    )
    assert Words().scalar(turned) == (
        "(e.id = S.id) AND (PERIOD_START(e) >= ADD_MONTHS(:refreshed, (-12)))"
        " AND (PERIOD_END(AS_OF(e, :refreshed)) < :refreshed)"
        " AND (NOT ((PERIOD_START(e) >= ADD_MONTHS(NOW(), (-12))) <=> TRUE))"
    )
    assert [step.rule for step in derived.trace] == ["r.4", "r.3", "r.7"]


def test_dropped_terms_and_their_reasons() -> None:
    young, gone = maintenance(V).refresh.dropped[1:], maintenance(V).refresh.dropped[:1]
    assert [(each.term, each.part, each.whole) for each in gone] == [(LEAVING, UNTIL, False)]
    assert [(each.term, each.part, each.whole) for each in young] == [(COMING, SINCE, True), (COMING, UNTIL, True)]
    assert Words().dropped(young[0]) == (
        "(r.7) [p]_now ∧ [¬p]_t never by PERIOD_START(e) >= ADD_MONTHS(NOW(), (-12)), because "
        "what rises with NOW() does not fall, PERIOD_START(e) >= ADD_MONTHS(NOW(), (-12)), "
        "PERIOD_START(e) < ADD_MONTHS(:refreshed, (-12)): the term is empty"
    )


def test_refresh_reads_only_those_who_can_have_turned() -> None:
    derived = maintenance(V).refresh
    window = "(PERIOD_START(R) >= ADD_MONTHS(:refreshed, (-12))) AND (PERIOD_START(R) <= ADD_MONTHS(NOW(), (-12)))"
    assert isinstance(derived.deleted, Select)
    turned = f"π_{{id}}(σ_{{q}}(σ_{{{window}}}(R)))"
    keyed = f"π_{{id}}(σ_{{q}}(R ⋉_{{R.id = e.id}} {turned}))"
    assert words(inputs(derived.deleted)[0], NAMES) == f"{keyed} ⋉ {turned}"
    assert derived.reads_whole == ()


def test_a_derivation_has_one_line_for_each_step() -> None:
    lines = derivation_lines(maintenance(DEVELOPERS).change([R.table], ["insertions"]), "D", NAMES)
    assert lines == [
        "∇D = ∅",
        "ΔD = π_{id}(σ_{q}(ΔR)) − π_{id}(σ_{q}(FR_[:changed_from, NOW](R ⋉_{R.id = e.id} π_{id}(σ_{q}(ΔR)))))",
        "by (c.10) Δ = σ_{q}(ΔR)",
        "by (c.8) Δ = π_{id}(σ_{q}(ΔR)) − π_{id}(σ_{q}(R))",
    ]
    apart = Select(Join((R, S)), JOINED)
    derived = maintenance(apart).change([R.table], ["deletions"])
    assert derivation_lines(derived, "V")[-1] == "reads all of assignments (as S)"
