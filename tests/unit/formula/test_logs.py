"""Logs and signatures: their forms, what is refused and where, and that they are streams."""

import io
from collections.abc import Iterator

import pytest

from weft.algebra.schema import BIGINT, DOUBLE, STRING
from weft.errors import FormulaError
from weft.formula import monpoly_log
from weft.formula.dejavu.log import events
from weft.formula.empty_points import relevant
from weft.formula.monpoly_log import time_points
from weft.formula.parse_formula import reading
from weft.formula.signature import TimePoint, batches, signature
from weft.formula.written import answers, verdict

KNOWN = signature("P(int) R(x: int, y: string) # one\n (* two *) T() F(float)")
SECOND = 1_000_000


def test_a_signature_has_types_and_names() -> None:
    assert KNOWN["R"].types == (BIGINT, STRING) and KNOWN["R"].columns == ("x", "y")
    assert KNOWN["P"].columns == ("c1",) and KNOWN["T"].types == () and KNOWN["F"].types == (DOUBLE,)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("P(int) P(string)", "P is declared twice"),
        ("P(bool)", "'bool' is not one of the types int, float, string"),
        ("P", "'(' and the types of the columns of P"),
        ("event P {x: int}", "records"),
    ],
)
def test_an_invalid_signature_is_refused(text: str, message: str) -> None:
    with pytest.raises(FormulaError) as refusal:
        signature(text)
    assert message in refusal.value.message


@pytest.mark.parametrize("chunk", [1, 2, 3, 7, 1 << 18])
def test_every_form_of_a_log_is_read_whatever_the_chunks(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(monpoly_log, "_CHUNK", chunk)
    text = (
        '@1 P(1) (2) R(3,"a, \\"b)") # P(7)\n T T() F(1.5e3);\n@2;> get_pos <@3 R (4 , x-y) R(-5,"")\n> terminate < @4'
    )
    assert list(time_points(io.StringIO(text), KNOWN)) == [
        TimePoint(0, SECOND, {"P": [(1,), (2,)], "R": [(3, 'a, \\"b)')], "T": [(), ()], "F": [(1500.0,)]}),
        TimePoint(1, 2 * SECOND, {}),
        TimePoint(2, 3 * SECOND, {"R": [(4, "x-y"), (-5, "")]}),
    ]


@pytest.mark.parametrize(
    ("text", "message", "line"),
    [
        ("@1\nZ(1)", "Z is not a predicate of the signature", 2),
        ("@1 P(a)", "(a) is not a row of P, whose columns are BIGINT", 1),
        ("@1 P(9223372036854775808)", "is not a row of P", 1),
        ("@1 P(1,2)", "P has 1 column, but this row has 2 values", 1),
        ("@1 P(1 2)", "values are separated by ','", 1),
        ("@2 P(1)\n\n@1 P(1)", "time point 1 is at 1, which is earlier than the preceding time point at 2", 3),
        ("@x", "'x' is not a time", 1),
        ("@0.0000001", "is not a time", 1),
        ('@1 R(1, "a', "is not allowed in a log", 1),
        ("P(1)", "'@' and a time are expected", 1),
        ("@1 P(1) (", "a value is expected", 1),
        ("@1 > save_state x <", "the command 'save_state' is not supported", 1),
        ("> print", "is not ended by '<'", 1),
    ],
)
def test_an_invalid_log_is_refused_with_its_line(text: str, message: str, line: int) -> None:
    with pytest.raises(FormulaError) as refusal:
        list(time_points(io.StringIO(text), KNOWN))
    assert message in refusal.value.message
    assert refusal.value.where == f"line {line}"


def test_a_log_is_a_stream() -> None:
    class Endless(io.TextIOBase):
        read_so_far = 0

        def read(self, size: int | None = -1) -> str:
            self.read_so_far += 1
            return "@1 P(1)\n" * 100

    stream = Endless()
    found = batches(time_points(stream, KNOWN), 150)  # type: ignore[arg-type]
    assert [len(next(found)) for _ in range(3)] == [75, 75, 75]
    assert stream.read_so_far < 10


def test_events_of_dejavu_are_time_points() -> None:
    known = {"open": (STRING,), "bid": (STRING, BIGINT), "go": ()}
    lines = ["open,a\n", "\n", "other,1,2\n", 'bid,"x, y",5\n', "go\n"]
    assert list(events(lines, known, timed=False)) == [
        TimePoint(0, 0, {"open": [("a",)]}),
        TimePoint(1, 0, {}),
        TimePoint(2, 0, {"bid": [("x, y", 5)]}),
        TimePoint(3, 0, {"go": [()]}),
    ]
    times = [point.at for point in events(["open,a,3", "go,5", "go,1", "go,2"], known, timed=True)]
    assert times == [3 * SECOND, 5 * SECOND, 5 * SECOND, 6 * SECOND]


@pytest.mark.parametrize(
    ("lines", "timed", "message"),
    [
        (["open,a,b"], False, "open has 1 column in the specification"),
        (["bid,a,b"], False, "compares a value by order, but the value is not a number"),
        (["go,x"], True, "'x' is not a time"),
        (["go,-2"], True, "the time -2 is negative"),
        (["go,1", "2"], True, "the line has a time but no event"),
    ],
)
def test_an_invalid_event_is_refused(lines: list[str], timed: bool, message: str) -> None:
    known = {"open": (STRING,), "bid": (STRING, BIGINT), "go": ()}
    with pytest.raises(FormulaError) as refusal:
        list(events(lines, known, timed=timed))
    assert message in refusal.value.message


def test_answers_are_printed_as_monpoly_does() -> None:
    rows = [(10, "b"), (9, "a"), (9, "B"), (9, "a")]
    assert answers(rows, closed=False) == '(9,"B") (9,"a") (10,"b")'
    assert answers(rows, closed=False, every_point=True) == '((9,"B"),(9,"a"),(10,"b"))'
    assert answers([], closed=False) is None and answers([], closed=False, every_point=True) == "()"
    assert answers([()], closed=True) == "true" and answers([], closed=True) is None
    assert answers([], closed=True, every_point=True) == "false"
    assert answers([(7.5,), (3.0,), (1e20,), (-0.000012,)], closed=False) == "(-1.2e-05) (3) (7.5) (1e+20)"
    assert answers([("",), ('"in quotes"',), ('"',)], closed=False) == '("") (""") ("in quotes")'
    assert verdict(20 * SECOND, 3, "true") == "@20 (time point 3): true"
    assert verdict(1_500_000, 0, "true") == "@1.5 (time point 0): true"


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("P(x)", [0, 2]),
        ("P(1)", [0]),
        ("ONCE P(x)", [0, 1, 2, 3]),
        ("P(x) AND ONCE P(x)", [0, 2]),
        ("PREVIOUS P(x)", [0, 1, 2, 3]),
        ("T() AND 1 = 1", [3]),
        ("NOT T()", [0, 1, 2, 3]),
    ],
)
def test_empty_time_points_are_left_out_where_they_change_nothing(text: str, kept: list[int]) -> None:
    points = list(time_points(io.StringIO("@1 P(1) @2 @3 P(2) @4 T()"), KNOWN))
    matters = relevant(reading(text, KNOWN).formula)
    assert [point.number for point in points if matters(point)] == kept


def test_batches_end_with_the_log() -> None:
    def counted() -> Iterator[TimePoint]:
        yield from (TimePoint(number, 0) for number in range(5))

    assert [[point.number for point in batch] for batch in batches(counted(), 2)] == [[0, 1], [2, 3], [4]]
    large = [TimePoint(0, 0), TimePoint(1, 0, {"P": [(1,)] * 5}), TimePoint(2, 0), TimePoint(3, 0, {"P": [(1,)]})]
    assert [[point.number for point in batch] for batch in batches(large, 3)] == [[0], [1], [2, 3]]


@pytest.mark.parametrize(
    ("line", "timed", "hinted"), [("open,a,7", False, True), ("open,a,7,8", False, False), ("open,a,b,7", True, False)]
)
def test_a_time_in_a_log_without_times_has_a_hint(line: str, timed: bool, hinted: bool) -> None:
    with pytest.raises(FormulaError) as refused:
        list(events([line], {"open": (STRING,)}, timed=timed))
    assert ("use a file with .timed. in its name" in (refused.value.hint or "")) == hinted
