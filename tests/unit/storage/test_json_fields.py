"""Errors while DuckDB reads a field of JSON texts."""

from __future__ import annotations

import os
import signal
import threading

import pyarrow as pa
import pytest

from weft.algebra.schema import BIGINT
from weft.errors import ExecutionError, LimitExceeded
from weft.storage import json_fields
from weft.storage.json_fields import field_values
from weft.storage.local_sql import connect
from weft.storage.time_limit import time_limit

ONE = pa.chunked_array([['{"a": 1}']])


def test_an_error_of_duckdb_is_an_error_of_weft(monkeypatch: pytest.MonkeyPatch) -> None:
    connection = connect()
    connection.close()
    monkeypatch.setattr(json_fields, "thread_connection", lambda: connection)
    with pytest.raises(ExecutionError, match="the rows cannot be computed: Connection Error"):
        field_values(ONE, ["a"], BIGINT)


def test_a_time_limit_ends_it() -> None:
    with time_limit(0), pytest.raises(LimitExceeded):
        while True:
            field_values(ONE, ["a"], BIGINT)


def test_ctrl_c_is_a_keyboard_interrupt() -> None:
    texts = pa.chunked_array([['{"a": 1, "b": ' + '"' + "x" * 10_000 + '"}'] * 5_000])
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a worker of pytest-xdist ignores the signal
    send = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    try:
        send.start()
        with pytest.raises(KeyboardInterrupt):
            for _ in range(20):
                field_values(texts, ["a"], BIGINT)
    finally:
        send.join()
        signal.signal(signal.SIGINT, before)
