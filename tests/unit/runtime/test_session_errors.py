"""What is raised while Spark works, turned into Weft's errors; no JVM is started for it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from py4j.protocol import Py4JNetworkError

from weft.errors import ExecutionError
from weft.runtime import session
from weft.runtime.java import find_java
from weft.runtime.session import plain_errors


def _cleanup_fails() -> None:
    try:
        raise KeyboardInterrupt
    finally:
        raise Py4JNetworkError("Answer from Java side is empty")


def test_ctrl_c_is_not_taken_for_an_error_of_the_jvm() -> None:
    with pytest.raises(KeyboardInterrupt), plain_errors("counting"):
        _cleanup_fails()


def test_a_jvm_that_is_gone_is_an_execution_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "_running", None)
    with pytest.raises(ExecutionError, match="ended while counting"), plain_errors("counting"):
        raise Py4JNetworkError("Answer from Java side is empty")


def test_a_start_that_fails_quotes_its_own_line_of_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = session.log_path(tmp_path)
    log.parent.mkdir()
    log.write_text("ERROR of another day\n")
    broken = tmp_path / "java"
    broken.write_text("#!/bin/sh\necho 'Error: this Java is broken'\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setattr(session, "_running", None)
    java = find_java()
    monkeypatch.setattr(session, "find_java", lambda: replace(java, executable=broken))
    with pytest.raises(ExecutionError, match="this Java is broken") as failure:
        session.spark_session(tmp_path)
    assert "another day" not in failure.value.message
