"""What keeps a query from running for ever, and tells why the JVM ended (design section 8, 4).

A pattern that backtracks, a nested-loop join in generated code, does not look whether Spark has cancelled it, and goes
on in its thread.  So what has taken too long is stopped by killing the JVM: ``spark_session`` starts another.  A query
may end the JVM by itself, too: Spark exits where a task runs out of memory or of Java's stack.
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
from weft.runtime.cancelling import end_what_goes_on, was_cancelled
from weft.runtime.session import Jvm, interrupted, running_jvm, spark_errors
from weft.runtime.turn import turn

_ANSWER_SECONDS: Final = 30.0
"""A JVM that takes longer than this for next to nothing is ended."""

_EXIT_SECONDS: Final = 10.0
"""A JVM that answers nothing any more is given this long to end by itself: how it ended says why."""

_CAUSES: Final = {
    "OutOfMemoryError": ("needed more memory than Spark's JVM has", "memory"),
    "StackOverflowError": ("nested too deep for Java, as a pattern like (a|b)* does over a long text", "stack"),
}
_THROWN: Final = re.compile(
    r"\s*(?:(?:Caused by|Suppressed|Exception): |(?:Terminating|Aborting) due to |Exception in thread \".*?\" )?"
    rf"java\.lang\.({'|'.join(_CAUSES)})\b"
)
"""How Java reports an error that was thrown: at the beginning of a line.  Elsewhere Spark may quote a query's text."""


class _Alarm:
    """Ends the JVM after some seconds unless it is stopped before."""

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
        """Whether it had rung before."""
        self._timer.cancel()
        with self._lock:
            self._stopped = True
            return self._rang


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Lets Spark work for so long within the block; then the JVM is ended.  Waits for its turn first.

    Raises LimitExceeded where that was needed, JvmEnded where the JVM ended by itself or by somebody else's doing.
    What Spark raises while it lives passes through.
    """
    with turn():
        yield from _limited(seconds)


def _limited(seconds: float) -> Iterator[None]:
    jvm = running_jvm()
    written = jvm.log.stat().st_size if jvm.log.exists() else 0
    alarm = _Alarm(jvm, seconds)
    problem: Exception | None = None
    try:
        yield
        # pyspark takes the end of a stream that broke off for the end of a result: a JVM that is gone must not have
        # given one.
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
            hint="Narrow it, or raise WEFT_QUERY_SECONDS.",
        ) from None
    if problem is not None:
        if was_cancelled():
            end_what_goes_on(jvm)
            raise Stopped from None
        if _lives(jvm):
            raise problem
        raise _ended(jvm, written) from None


def _lives(jvm: Jvm) -> bool:
    """Whether the JVM still answers; one that does not is gone afterwards.

    A JVM that is on its way out answers its last calls with errors of other kinds.
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
    """Why the JVM ended, by what is in its log after the first ``written`` bytes.

    One that was killed did not end because of what it ran, whatever another process wrote into the log.
    """
    seen = None if jvm.process.returncode == -SIGKILL else _sign(jvm, written)
    if seen is None:
        return JvmEnded("Spark's JVM ended in the middle of the query", where=str(jvm.log), hint="The log may say why.")
    words, kind = _CAUSES[seen]
    if kind == "memory":
        return JvmEnded(f"the query {words}, {jvm.memory}", hint="Narrow it, or raise WEFT_SPARK_MEMORY.", known=True)
    return JvmEnded(f"the query {words}", hint="Write it another way.", known=True)


def _sign(jvm: Jvm, written: int) -> str | None:
    """What of ``_CAUSES`` the log reports first; None where it reports none, or was renamed meanwhile."""
    with suppress(OSError), jvm.log.open("rb") as log:
        log.seek(written)
        found = (_THROWN.match(line.decode(errors="replace")) for line in log)
        return next((match[1] for match in found if match), None)
    return None
