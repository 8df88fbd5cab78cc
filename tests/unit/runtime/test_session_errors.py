"""What is raised while Spark works, turned into Weft's errors; no JVM is started for it."""

from __future__ import annotations

import pytest
from py4j.protocol import Py4JNetworkError

from weft.errors import ExecutionError
from weft.runtime.session import plain_errors


def _cleanup_fails() -> None:
    try:
        raise KeyboardInterrupt
    finally:
        raise Py4JNetworkError("Answer from Java side is empty")


def test_ctrl_c_is_not_taken_for_an_error_of_the_jvm() -> None:
    with pytest.raises(KeyboardInterrupt), plain_errors("counting"):
        _cleanup_fails()


def test_a_jvm_that_is_gone_is_an_execution_error() -> None:
    with pytest.raises(ExecutionError, match="ended while counting"), plain_errors("counting"):
        raise Py4JNetworkError("Answer from Java side is empty")
