"""MonPoly's language: how operators bind, what is refused where, and the cases' formulas."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.algebra import formula as algebra
from weft.algebra.formula import And, Atom, Interval, Not, Once, Or, Previous, Since, Variable
from weft.algebra.schema import BIGINT, DOUBLE, STRING
from weft.errors import FormulaError
from weft.formula.lowering import lowered
from weft.formula.monpoly import parsed
from weft.formula.parse_formula import counted_reading, reading
from weft.formula.signature import signature
from weft.formula.unfolding import unfolded
from weft.formula.written import written

KNOWN = signature("A() B() C() D() P(int) Q(x: int) R(int, int) S(int,int,int) F(float) W(string) V(w: string, n: int)")
X = Variable("x", BIGINT)
A, B, C, D = (Atom(name, ()) for name in "ABCD")
P = Atom("P", (X,))


def tree(text: str, *, extended: bool = False) -> algebra.Formula:
    return lowered(unfolded(parsed(text, extended=extended), text), KNOWN, text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A() AND B() OR C()", Or(And(A, B), C)),
        ("A() OR B() AND C()", Or(A, And(B, C))),
        ("NOT A() AND B()", And(Not(A), B)),
        ("ONCE A() AND B()", Once(Interval(), And(A, B))),
        ("A() AND ONCE B() OR C()", And(A, Once(Interval(), Or(B, C)))),
        ("A() AND ONCE B() SINCE C()", Since(Interval(), And(A, Once(Interval(), B)), C)),
        ("A() SINCE B() SINCE C()", Since(Interval(), A, Since(Interval(), B, C))),
        ("A() IMPLIES B() IMPLIES C()", Or(Not(A), Or(Not(B), C))),
        ("NOT PREVIOUS A() AND B()", Not(Previous(Interval(), And(A, B)))),
        ("(A() OR B()) AND C()", And(Or(A, B), C)),
        ("EXISTS x. P(x) AND A() SINCE B()", Since(Interval(), algebra.Exists((X,), And(P, A)), B)),
        ("ONCE[1,2] A()", Once(Interval(1_000_000, 2_000_000), A)),
        ("ONCE(1,2) A()", Once(Interval(1_000_001, 1_999_999), A)),
        ("ONCE [2m,*] A()", Once(Interval(120_000_000), A)),
        ("ONCE[0,1d] A()", Once(Interval(0, 86_400_000_000), A)),
        ("PAST_ALWAYS A()", Not(Once(Interval(), Not(A)))),
        ("A() SINCE (1 = 1)", Since(Interval(), A, tree("1 = 1"))),
        ("P(_)", algebra.Exists((Variable("_1", BIGINT),), Atom("P", (Variable("_1", BIGINT),)))),
        ("P(?x) (* a comment *) # another", P),
        ("P(x')", Atom("P", (Variable("x'", BIGINT),))),
        ("n <- CNT x; (P(x))", algebra.Aggregate(Variable("n", BIGINT), "CNT", X, (), P)),
        ("P(x) AND x >= 2 * 3", And(P, algebra.Comparison("<=", algebra.Constant(6, BIGINT), X))),
    ],
)
def test_operators_bind_as_in_monpoly(text: str, expected: algebra.Formula) -> None:
    assert tree(text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("A() AND", "a formula or a term is expected here; the text ends"),
        ("A() AND\n  Z(1)", "Z is not a predicate of the signature"),
        ("P(1, 2)", "P has 1 column, but 2 terms are given"),
        ('P("a")', "types clash: column 1 of P is an integer, but this term is a text"),
        ("P(x) AND W(x)", "types clash"),
        ("P(x) AND x = 1.5", "types clash"),
        ("x <- SUM y W(y)", "types clash: SUM of y is a number, but this term is a text"),
        ("x <- SUM z P(y)", "z is aggregated but is not free"),
        ("x <- SUM y; z P(y)", "z is a grouping variable but is not free"),
        ("NEXT A()", "NEXT looks into the future"),
        ("A() UNTIL B()", "UNTIL looks into the future"),
        ("(P(x) AND EVENTUALLY[0,3] P(x))", "EVENTUALLY looks into the future"),
        ("ONCE[4,1] A()", "the interval is negative or empty"),
        ("ONCE[-4,1] A()", "the interval is negative or empty"),
        ("ONCE(1,1] A()", "the interval is negative or empty"),
        ("ONCE[1y,2] A()", "a unit of time is one of"),
        ("ONCE[1 A()", "',' and the upper end"),
        ("LET Z(x) = R(x, y) IN Z(1)", "the parameters are (x), but the free variables of the formula are (x, y)"),
        ("A() $ B()", "'$', which is not allowed here"),
        ('W(x) AND x MATCHES r"\\(a\\)\\1"', "do not support back references"),
        ('W(x) AND x MATCHES r"a" (y)', "names 1 group, but the regular expression has 0"),
        ("P(x) AND x = 1 / 0", "the divisor is zero"),
        ("P(x) AND x = 9223372036854775808", "9223372036854775808 does not fit into 64 bits"),
        ("P(-9223372036854775809)", "-9223372036854775809 does not fit into 64 bits"),
        ("P(x) P(x)", "an operator or the end is expected here"),
        ("(" * 200 + "A()" + ")" * 200, "nested more than"),
        (" AND ".join(["A()"] * 3_000), "a chain of more than 150 formulas"),
        ("P(x) AND x < " + " + ".join(["1"] * 500), "a chain of more than 150 terms"),
        ("P(x) AND x < " + "-" * 5_000 + "1", "nested more than"),
    ],
)
def test_unsupported_constructs_are_refused_with_their_place(text: str, message: str) -> None:
    with pytest.raises(FormulaError) as refusal:
        tree(text)
    assert message in refusal.value.message
    assert refusal.value.where is not None and refusal.value.where.startswith("line ")


def test_the_place_is_shown() -> None:
    with pytest.raises(FormulaError) as refusal:
        tree("A() AND\n  Z(1)")
    assert refusal.value.where == "line 2, column 3"
    assert refusal.value.excerpt == "      Z(1)\n      ^"
    assert "\n" not in refusal.value.message


def test_definitions_are_unfolded_without_capture() -> None:
    assert tree("LET Z(a) = EXISTS x. R(a, x) IN Z(x)") == tree("EXISTS x_1. R(x, x_1)")
    assert tree("LET Z(a) = P(a) IN LET P(a) = Q(a) IN Z(x) AND P(x)") == tree("P(x) AND Q(x)")
    assert tree("LET Z(a, b) = R(a, b) IN Z(x, x)") == tree("EXISTS b_1. R(x, b_1) AND b_1 = x")
    assert tree("LET Z(a) = a <- SUM x P(x) IN Z(5)") == tree("EXISTS a_1. (a_1 <- SUM x P(x)) AND a_1 = 5")
    assert tree("LET Z(a) = P(a) IN LET Z(a) = Q(a) IN Z(x)") == tree("Q(x)")


def test_a_recursive_let_is_a_fixpoint_that_speaks_of_earlier_time_points() -> None:
    body = "(R(x, y) OR (EXISTS z. (PREVIOUS X(x, z)) AND R(z, y)))"
    found = reading(f"LETPAST X(x, y) = {body} IN X(u, v) AND P(u)", KNOWN).formula
    assert found == counted_reading(f"MU X(x, y) = {body} IN X(u, v) AND P(u)", KNOWN).formula
    with pytest.raises(FormulaError, match="Put PREVIOUS before X"):
        reading("LETPAST X(x) = P(x) OR X(x) IN X(x)", KNOWN)


@pytest.mark.parametrize(
    ("text", "message", "instead"),
    [
        ("P(x) ∧ Q(x)", "∧ is not supported", "Write AND,"),
        ("P(x) AND ⧫[0,5] Q(x)", "⧫ is not supported", "Write ONCE,"),
        ("P(x) AND x ≠ 3", "≠ is not supported", "Write NOT … = …,"),
        ("◊ P(x)", "◊ is not supported", "use ONCE instead of EVENTUALLY."),
        ("P({a: 1})", "records are not supported", "one column for each field"),
        ("MU X. P(x) OR PREVIOUS X", "MU is a word of µTL", "--language mutl"),
        ("P(x) AND DISTINCT Q(x)", "DISTINCT is a word of µTL", "--language mutl"),
    ],
)
def test_what_others_write_is_refused_by_name_with_what_to_write(text: str, message: str, instead: str) -> None:
    with pytest.raises(FormulaError, match=message) as refusal:
        reading(text, KNOWN)
    assert instead in (refusal.value.hint or "")


def test_types_are_found_from_where_variables_stand() -> None:
    found = reading("(r <- AVG x F(x)) AND t = f2i(r)", KNOWN)
    assert found.columns == (Variable("r", DOUBLE), Variable("t", BIGINT))
    assert reading('W(y) AND y MATCHES r"\\(z\\)a" (g)', KNOWN).columns[1] == Variable("g", STRING)


def test_columns_are_in_monpolys_order() -> None:
    assert [variable.name for variable in reading("R(y, x)", KNOWN).columns] == ["y", "x"]
    assert [variable.name for variable in reading("P(x) SINCE R(y, x)", KNOWN).columns] == ["y", "x"]
    assert [variable.name for variable in reading("n <- CNT y; x R(x, y)", KNOWN).columns] == ["n", "x"]


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("P(x) OR Q(y)", "P(x) OR Q(y)"),
        ("NOT P(x)", "NOT P(x)"),
        ("P(x) AND x < y", "P(x) AND x < y"),
        ("A() AND NOT P(x)", "A() AND (NOT P(x))"),
        ("R(x, y) SINCE P(x)", "R(x,y) SINCE P(x)"),
    ],
)
def test_a_formula_with_infinitely_many_answers_is_refused_with_the_part(text: str, part: str) -> None:
    with pytest.raises(FormulaError) as refusal:
        reading(text, KNOWN)
    assert refusal.value.excerpt == f"    {part}"
    assert "\n" not in refusal.value.message


@pytest.mark.parametrize(
    ("interval", "shown"),
    [
        ("[0,7d]", "[0,7d]"),
        ("[0,604800]", "[0,7d]"),
        ("[0,5us]", "[0,5us]"),
        ("(3d,90m]", None),
        ("(90m,3d)", "(90m,3d)"),
        ("[90s,1500ms]", None),
        ("[1500ms,90s]", "[1500ms,90s]"),
        ("(0,*)", "(0,*)"),
        ("[0,*)", ""),
    ],
)
def test_an_interval_is_shown_in_the_units_of_a_person(interval: str, shown: str | None) -> None:
    if shown is None:
        with pytest.raises(FormulaError, match="negative or empty"):
            reading(f"ONCE{interval} P(x)", KNOWN)
        return
    read = reading(f"ONCE{interval} P(x)", KNOWN)
    assert written(read.formula) == f"ONCE{shown} P(x)"
    assert reading(written(read.formula), KNOWN).formula == read.formula


@pytest.mark.parametrize(
    ("text", "answered"),
    [
        ("x = 1", "TRUE AND x = 1"),
        ("1 = 2", "FALSE"),
        ("P(x) AND y = x + 1", "P(x) AND y = (x + 1)"),
        ("NOT (P(x) IMPLIES Q(x))", "P(x) AND (NOT Q(x))"),
        ("FORALL x. P(x) IMPLIES Q(x)", "NOT (EXISTS x. (P(x) AND (NOT Q(x))))"),
        ("P(x) AND (R(y, x) OR NOT Q(x)) AND R(x, y)", None),
        ("P(x) AND EXISTS y. NOT Q(x) AND R(x, y)", "P(x) AND (EXISTS y. (R(x,y) AND (NOT Q(x))))"),
        (
            "(NOT P(x) AND Q(y)) SINCE[1,2] R(x, y)",
            "(((ONCE[0,2s] R(x,y)) AND (NOT P(x))) AND Q(y)) SINCE[1s,2s] R(x,y)",
        ),
    ],
)
def test_the_form_that_is_answered(text: str, answered: str | None) -> None:
    if answered is None:
        with pytest.raises(FormulaError):
            reading(text, KNOWN)
    else:
        assert written(reading(text, KNOWN).formula) == answered


def test_where_duplicates_count_a_formula_is_taken_as_it_is_written() -> None:
    assert counted_reading("P(x) AND NOT Q(x)", KNOWN).formula == reading("P(x) AND NOT Q(x)", KNOWN).formula
    with pytest.raises(FormulaError, match="cannot be monitored"):
        counted_reading("P(x) AND NOT (NOT P(x) OR Q(x))", KNOWN)


def test_fixpoints_of_the_paper() -> None:
    both = "MU X. (A() AND NOT B()) OR PREVIOUS X"
    assert counted_reading(both, KNOWN).formula == algebra.Fixpoint(
        (algebra.Definition("X", (), Or(And(A, Not(B)), Previous(Interval(), algebra.Defined("X", ())))),), "X", ()
    )
    double = counted_reading("MU X. A() OR PREVIOUS X OR PREVIOUS X", KNOWN).formula
    assert isinstance(double, algebra.Fixpoint)
    since1 = counted_reading("MU X. (DISTINCT P(x)) AND (R(x, y) OR PREVIOUS X)", KNOWN).formula
    assert isinstance(since1, algebra.Fixpoint)
    assert [variable.name for variable in since1.definitions[0].parameters] == ["x", "y"]
    assert counted_reading("P(x) SINCE2 R(x, y)", KNOWN).formula == Since(
        Interval(), P, Atom("R", (X, Variable("y", BIGINT))), "second"
    )
    with pytest.raises(FormulaError, match="at the same time point"):
        counted_reading("MU X. A() OR X", KNOWN)
    with pytest.raises(FormulaError, match="take no interval"):
        counted_reading("ONCE2[0,3] A()", KNOWN)


NAMES = st.sampled_from(["x", "y", "z"])


@st.composite
def formulas(draw: st.DrawFn, depth: int = 4) -> algebra.Formula:
    """Formulas over variables of one type, in every shape that text can have."""
    variables = [Variable(name, BIGINT) for name in ("x", "y", "z")]
    variable = st.sampled_from(variables)
    term = st.one_of(variable, st.integers(-5, 5).map(lambda value: algebra.Constant(value, BIGINT)))
    if depth == 0 or draw(st.integers(0, 5)) == 0:
        match draw(st.integers(0, 4)):
            case 0:
                return Atom("R", (draw(term), draw(term)))
            case 1:
                return Atom("P", (draw(term),))
            case 2:
                left = algebra.Computed("+", (draw(variable), draw(term)), BIGINT)
                return algebra.Comparison(draw(st.sampled_from(["=", "<", "<="])), left, draw(term))
            case 3:
                return algebra.Truth(draw(st.booleans()))
            case _:
                return Atom("A", ())
    inner = formulas(depth - 1)
    low = draw(st.integers(0, 3_000_000))
    ends = st.one_of(st.none(), st.integers(0, 3_000_000).map(lambda length: low + length))
    interval = Interval(low, draw(ends))
    return draw(compound(inner, interval, draw(st.sampled_from(["any", "first"])), variables))


@st.composite
def compound(
    draw: st.DrawFn,
    inner: st.SearchStrategy[algebra.Formula],
    interval: Interval,
    counting: algebra.Counting,
    variables: list[Variable],
) -> algebra.Formula:
    """A formula over others."""
    match draw(st.integers(0, 8)):
        case 0:
            return And(draw(inner), draw(inner))
        case 1:
            return Or(draw(inner), draw(inner))
        case 2:
            return Not(draw(inner))
        case 3:
            return Previous(interval, draw(inner))
        case 4:
            return Once(interval, draw(inner), counting)
        case 5:
            return Since(interval, draw(inner), draw(inner), counting)
        case 6:
            return algebra.Distinct(draw(inner))
        case 7:
            below = draw(inner)
            free = algebra.free_variables(below)
            return algebra.Exists(free[:1], below) if free else below
        case _:
            below = And(Atom("R", (variables[0], variables[1])), draw(inner))
            function = draw(st.sampled_from(["CNT", "SUM", "MIN", "MAX"]))
            return algebra.Aggregate(variables[2], function, variables[0], (variables[1],), below)


@given(formulas())
@settings(max_examples=300, deadline=None)
def test_written_texts_are_read_back(formula: algebra.Formula) -> None:
    typed = And(formula, Atom("S", tuple(Variable(name, BIGINT) for name in ("x", "y", "z"))))
    assert tree(written(typed), extended=True) == typed


@pytest.mark.parametrize(
    "formula",
    [
        And(Atom("W", (Variable("w", STRING),)), algebra.Matches(Variable("w", STRING), "(?m)^(a')$", (None,))),
        Atom("W", (algebra.Constant('it\'s "quoted" \\ so', STRING),)),
        Atom("F", (algebra.Constant(-1e300, DOUBLE),)),
        Atom("F", (algebra.Constant(2.5, DOUBLE),)),
        And(
            Atom("W", (Variable("w", STRING),)),
            algebra.Comparison("substring", algebra.Constant("a", STRING), Variable("w", STRING)),
        ),
        algebra.Fixpoint(
            (
                algebra.Definition("X", (X,), Or(P, Previous(Interval(), algebra.Defined("Y", (X,))))),
                algebra.Definition("Y", (X,), And(P, Previous(Interval(), algebra.Defined("X", (X,))))),
            ),
            "Y",
            (Variable("z", BIGINT),),
        ),
    ],
)
def test_texts_numbers_and_fixpoints_read_back(formula: algebra.Formula) -> None:
    assert tree(written(formula), extended=True) == formula


@pytest.mark.data
def test_each_case_is_monitorable_where_monpoly_says_so(monitor: Path) -> None:
    wrong, seen = [], 0
    for line in (monitor / "monpoly" / "cases.jsonl").read_text().splitlines():
        case = json.loads(line)
        known = signature((monitor / case["sig"]).read_text())
        fatal = any("Fatal error" in printed for printed in case["output"][:1])
        try:
            reading(case["formula"], known)
            taken = True
        except FormulaError:
            taken = False
        seen += 1
        if taken != (case["past_only"] and case["monitorable"] and not fatal):
            wrong.append((case["id"], case["formula"]))
    assert seen == 345 and wrong == []
