from __future__ import annotations

import base64
import datetime as dt
import math
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.algebra.schema import DataType
from weft.errors import StorageError
from weft.storage.values import decode

UTC = dt.timezone.utc
WIDE = "12345678901234567890123456789012345.678"
EPOCH = dt.datetime(1970, 1, 1, tzinfo=UTC)


def one(text: str | None, type_: str) -> object:
    return decode([text], [DataType.parse(type_)])[0]


@pytest.mark.parametrize(
    ("text", "type_", "value"),
    [
        ("", "STRING", ""),
        ("NULL", "STRING", "NULL"),
        ("a\x00\n\U0001f600", "STRING", "a\x00\n\U0001f600"),
        ("true", "BOOLEAN", True),
        ("false", "BOOLEAN", False),
        ("-128", "TINYINT", -128),
        ("32767", "SMALLINT", 32767),
        ("-2147483648", "INT", -(2**31)),
        ("9223372036854775807", "BIGINT", 2**63 - 1),
        ("1.0E10", "DOUBLE", 1e10),
        ("4.9E-324", "DOUBLE", 5e-324),
        ("-0.0", "DOUBLE", 0.0),
        ("Infinity", "DOUBLE", math.inf),
        ("-Infinity", "FLOAT", -math.inf),
        ("0.1", "FLOAT", 0.1),
        (WIDE, "DECIMAL(38,3)", Decimal(WIDE)),
        ("1.50", "DECIMAL(4,2)", Decimal("1.50")),
        ("0", "TIMESTAMP", EPOCH),
        ("-1", "TIMESTAMP", EPOCH - dt.timedelta(microseconds=1)),
        ("253402300799999999", "TIMESTAMP", dt.datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)),
        ("253402300800000000", "TIMESTAMP", 253402300800000000),
        ("8471", "DATE", dt.date(1993, 3, 12)),
        ("-719163", "DATE", -719163),
        ("AP8=", "BINARY", b"\x00\xff"),
        ("", "BINARY", b""),
    ],
)  # fmt: skip
def test_every_type_comes_back(text: str, type_: str, value: object) -> None:
    found = one(text, type_)
    assert found == value
    assert type(found) is type(value)


def test_nan_and_null() -> None:
    nan = one("NaN", "DOUBLE")
    assert isinstance(nan, float)
    assert math.isnan(nan)
    for type_ in ("STRING", "BOOLEAN", "BIGINT", "DOUBLE", "DECIMAL(4,2)", "TIMESTAMP", "DATE", "BINARY", "NULL"):
        assert one(None, type_) is None
    assert math.copysign(1, float(str(one("-0.0", "DOUBLE")))) == -1


@pytest.mark.parametrize(
    ("text", "type_"),
    [("yes", "BOOLEAN"), ("1.5", "INT"), ("x", "DOUBLE"), ("x", "DECIMAL(4,2)"), ("1993-01-01", "TIMESTAMP"),
     ("x", "DATE"), ("?", "BINARY"), ("x", "NULL")],
)  # fmt: skip
def test_a_text_that_is_no_value_is_damage(text: str, type_: str) -> None:
    with pytest.raises(StorageError):
        one(text, type_)


def test_a_row_of_another_width_is_damage() -> None:
    with pytest.raises(StorageError, match="2 values"):
        decode(["1", "2"], [DataType("INT")])


@given(st.integers(-(2**63), 2**63 - 1))
def test_integers(value: int) -> None:
    assert one(str(value), "BIGINT") == value


@given(st.floats(allow_nan=False))
def test_doubles(value: float) -> None:
    assert one(repr(value).replace("inf", "Infinity"), "DOUBLE") == value


@given(st.datetimes(timezones=st.just(UTC)))
def test_instants(value: dt.datetime) -> None:
    assert one(str((value - EPOCH) // dt.timedelta(microseconds=1)), "TIMESTAMP") == value


@given(st.binary())
def test_bytes(value: bytes) -> None:
    assert one(base64.b64encode(value).decode(), "BINARY") == value
