"""Limit the run time of a query, and find out why the JVM ended (design section 8, 4).

Some computations do not check for cancellation. Examples are a nested-loop join in generated code, and a regular
expression that backtracks. If a query exceeds the time limit, Weft therefore kills the JVM, and ``spark_session``
starts another JVM. A query can also end the JVM itself: Spark exits if a task runs out of memory or of Java's stack.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from signal import SIGKILL
from subprocess import TimeoutExpired
from typing import Final

from weft.errors import JvmEnded, LimitExceeded
from weft.interruption import Stopped
from weft.runtime.cancelling import kill_unresponsive, was_cancelled
from weft.runtime.session import Jvm, interrupted, running_jvm, spark_errors
from weft.runtime.turn import turn

_ANSWER_SECONDS: Final = 30.0
"""If a JVM does not answer a trivial query within this time (seconds), Weft kills the JVM."""

_EXIT_SECONDS: Final = 10.0
"""The time (seconds) that an unresponsive JVM has to exit and report the cause."""

_CAUSES: Final = {
    "OutOfMemoryError": ("needed more memory than Spark's JVM has", "memory"),
    "StackOverflowError": ("nests too deep for Java, like the pattern (a|b)* over a long text", "stack"),
}
_THROWN: Final = re.compile(
    r"\s*(?:(?:Caused by|Suppressed|Exception): |(?:Terminating|Aborting) due to |Exception in thread \".*?\" )?"
    rf"java\.lang\.({'|'.join(_CAUSES)})\b"
)
"""Java reports an error at the start of a line. Later in a line, Spark may quote the text of a query."""


class _Alarm:
    """A timer that kills the JVM after some seconds unless ``stop`` is called first."""

    def __init__(self, jvm: Jvm, seconds: float) -> None:
        self._jvm = jvm
        self._lock = threading.Lock()
        self._stopped = False
        self._rang = False
        self._timer = threading.Timer(min(seconds, threading.TIMEOUT_MAX), self._ring)
        self._timer.daemon = True
        self._timer.start()

    def _ring(self) -> None:
        with self._lock:
            if not self._stopped:
                self._rang = True
                self._jvm.end()

    def stop(self) -> bool:
        """Stop the timer. Return whether the timer had expired."""
        self._timer.cancel()
        with self._lock:
            self._stopped = True
            return self._rang


@contextmanager
def limited(seconds: float, *, spent: float = 0.0) -> Iterator[None]:
    """During the ``with`` block, limit Spark's work to ``seconds``. Kill the JVM if the work takes longer.

    An earlier computation of the same query took ``spent`` of the seconds.

    The function first waits for the turn (``runtime/turn.py``). Raise LimitExceeded if the limit expired, and JvmEnded
    if the JVM ended for another reason. Exceptions of Spark pass through if the JVM is alive.
    """
    with turn():
        yield from _limited(seconds, spent)


def _limited(seconds: float, spent: float) -> Iterator[None]:
    jvm = running_jvm()
    written = jvm.log.stat().st_size if jvm.log.exists() else 0
    alarm = _Alarm(jvm, max(seconds - spent, 0.0))
    problem: Exception | None = None
    try:
        yield
        # pyspark mistakes a broken stream for the end of a result, so check that the JVM still answers.
        jvm.session.conf.get("spark.app.id")
    except spark_errors() as error:
        if interrupted(error):
            raise KeyboardInterrupt from None
        problem = error
    finally:
        over = alarm.stop()
    if over:
        raise LimitExceeded(
            f"the query took longer than {seconds:g} s",
            hint="Restrict the query. Or raise WEFT_QUERY_SECONDS and, if she has one, the limit of the user.",
        ) from None
    if problem is not None:
        if was_cancelled():
            kill_unresponsive(jvm)
            raise Stopped from None
        if _lives(jvm):
            raise problem
        raise _ended(jvm, written) from None


def _lives(jvm: Jvm) -> bool:
    """Return whether the JVM answers a query. If the JVM does not answer, kill the JVM.

    A JVM that is about to exit returns unrelated errors for its last calls.
    """
    if not jvm.lives():
        return False
    alarm = _Alarm(jvm, _ANSWER_SECONDS)
    try:
        jvm.session.range(1).count()
    except spark_errors():
        with suppress(TimeoutExpired):
            jvm.process.wait(_EXIT_SECONDS)
        jvm.end()
    finally:
        over = alarm.stop()
    return jvm.lives() and not over


def _ended(jvm: Jvm, written: int) -> JvmEnded:
    """Return an error with the reason for the end of the JVM, from its log. Ignore the first ``written`` bytes of the
    log.

    If the JVM was killed, the query is not the cause, even if another process wrote a matching line into the log.
    """
    seen = None if jvm.process.returncode == -SIGKILL else _sign(jvm, written)
    if seen is None:
        return JvmEnded(
            "Spark's JVM ended in the middle of the query", where=str(jvm.log), hint="Look for the cause in the log."
        )
    words, kind = _CAUSES[seen]
    if kind == "memory":
        return JvmEnded(
            f"the query {words}, {jvm.memory}", hint="Restrict the query, or raise WEFT_SPARK_MEMORY.", known=True
        )
    return JvmEnded(f"the query {words}", hint="Rewrite the query.", known=True)


def _sign(jvm: Jvm, written: int) -> str | None:
    """Return the first cause in the log. Return None if the log contains no cause or was renamed."""
    with suppress(OSError), jvm.log.open("rb") as log:
        log.seek(written)
        matches = (_THROWN.match(line.decode(errors="replace")) for line in log)
        return next((match[1] for match in matches if match), None)
    return None
