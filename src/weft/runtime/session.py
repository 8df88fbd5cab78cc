"""Run Spark in this process: one JVM with a session for each home, in UTC (design, sections 7 and 8).

The JVM takes 5 to 15 seconds to start. Importing this module therefore starts nothing. The file ``logs/spark.log`` of
the home receives the output of the JVM, Spark's log, and the messages of pyspark and py4j.

The JVM runs in a separate process session, so Ctrl-C and SIGTERM reach only Weft. When Weft's process ends, the
standard input of the JVM is closed, and the JVM stops.
"""

from __future__ import annotations

import errno
import logging
import os
import re
import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import Popen, TimeoutExpired
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from weft.access import make_file, make_folder
from weft.catalog import layout
from weft.configuration import configuration
from weft.errors import ExecutionError, WeftError
from weft.runtime.executors import EXECUTORS_HINT, what_executors_lack
from weft.runtime.jars import S3_JARS, check_spark_version, listed_jars, local_jars
from weft.runtime.java import cache_folder, find_java
from weft.runtime.launch import foreign_variables_hidden, python_named, start_jvm
from weft.runtime.settings import in_one_process, local_master, settings
from weft.store import S3Access, S3Store, Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOG_LIMIT: Final = 16 * 1024 * 1024
"""The maximum size of ``spark.log`` in bytes. At the next start, a larger file is renamed to ``spark.log.1``."""

_PATIENCE_SECONDS: Final = 10.0
"""The seconds that Weft waits for the JVM to end after a request, and again after a SIGTERM."""

_PYTHON_LOGGERS: Final = ("py4j", "pyspark")
_QUERY_LOGGERS: Final = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
"""The loggers of pyspark for query errors. By default, these loggers write JSON to standard error."""

_OF_FILES: Final = ("java.io.IOException", "java.io.FileNotFoundException", "java.nio.file.FileSystemException")
_FULL: Final = tuple(map(os.strerror, (errno.ENOSPC, errno.EDQUOT)))

_LOST: Final = "[CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND]"


@dataclass(frozen=True)
class _Running:
    """The JVM and its sessions. ``session`` is the base session, and ``of_homes`` has the session of each home.

    ``reads_s3`` is True if the JVM has the jars for S3. ``buckets`` has the access to each bucket, which the sessions
    share.
    """

    session: SparkSession
    gateway: Any
    log: Path
    memory: str
    reads_s3: bool
    of_homes: dict[Path | None, SparkSession] = field(default_factory=dict)
    buckets: dict[str, S3Access] = field(default_factory=dict)


@dataclass(frozen=True)
class Jvm:
    """The current JVM of this process. An old object of this class cannot kill a later JVM."""

    session: SparkSession
    log: Path
    process: Popen[bytes]
    memory: str
    """The maximum heap size of the JVM, such as ``2g``."""

    def lives(self) -> bool:
        """Return whether the JVM is running."""
        return self.process.poll() is None

    def end(self) -> None:
        """Kill the JVM and all processes that the JVM has started."""
        if self.process.poll() is not None:
            return  # the number may belong to another process by now
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


_running: _Running | None = None
_starting: Final = threading.Lock()


def spark_session(
    home: Path | None,
    *,
    master: str | None = None,
    jars: Sequence[Path] = (),
    conf: Mapping[str, str] = MappingProxyType({}),
) -> SparkSession:
    """Return the session of a home. Other homes do not see the temporary views and settings of the session.

    The first call in a process starts the JVM. ``master``, ``jars`` and ``conf`` apply only to the start of the JVM.
    ``master`` is Spark's master URL. The default is the URL in the settings, or else all cores of this machine.
    ``jars`` are jars besides pyspark's own (``runtime/jars.py``). ``conf`` has Spark settings that override all others.
    Spark's log goes to the folder ``logs`` of the first ``home``, or of the cache folder. If the data of a home is on
    S3, its session receives the access, and the JVM needs the jars of ``S3_JARS``. Otherwise the JVM gets these jars if
    they are there, for tables on S3 that a home reads in place.

    If the JVM has died, a new JVM and new sessions replace the old ones. If Spark cannot start, raise ExecutionError
    with the path of the log.
    """
    global _running
    with _starting:
        if _running is not None and not _alive(_running):
            _discard(_running)
            _running = None
        if _running is None:
            jars = (*jars, *_s3_jars(home))
            chosen = configuration(home)
            wanted = {**settings(master or chosen.spark_master or local_master(), chosen, jars), **conf}
            _running = _start(home, wanted, jars)
        if home not in _running.of_homes:
            _running.of_homes[home] = _new_session(_running, home)
        return _running.of_homes[home]


def _s3_jars(home: Path | None) -> tuple[Path, ...]:
    """Return the jars for S3. If the cache folder lacks them, raise ExecutionError if the home needs them."""
    try:
        return local_jars(S3_JARS)
    except ExecutionError:
        if _bucket_of(home) is not None:
            raise
        return ()


def _bucket_of(home: Path | None) -> S3Store | None:
    """Return the place of a home's data if this is on S3."""
    data = None if home is None else layout.data(home)
    return data if isinstance(data, S3Store) else None


def _new_session(running: _Running, home: Path | None) -> SparkSession:
    """Return a new session with the access to the data of the home. Raise ExecutionError if this JVM cannot have it."""
    session, place = running.session.newSession(), _bucket_of(home)
    if place is not None:
        _grant(running, session, place)
    return session


def grant_access(session: SparkSession, place: Store) -> None:
    """Give a session the access to a place, which may be on S3. Raise ExecutionError if this JVM cannot have it."""
    if isinstance(place, S3Store):
        with _starting:
            assert _running is not None
            _grant(_running, session, place)


def _grant(running: _Running, session: SparkSession, place: S3Store) -> None:
    """Spark opens a bucket once for all sessions, with the settings of the first."""
    if not running.reads_s3:
        raise ExecutionError(
            f"{place} is on S3, and Spark runs in this process without the jars for S3",
            hint="Run `weft prepare --s3`, which downloads the jars. Then start a new process.",
        )
    if running.buckets.setdefault(place.bucket, place.access) != place.access:
        raise ExecutionError(
            f"this process already reaches the bucket {place.bucket} with other keys or at another server",
            hint="Start a new process.",
        )
    for name, value in place.access.spark_settings(place.bucket).items():
        session.conf.set(name, value)


def release_session(home: Path | None) -> None:
    """Drop the session of a home with its views and settings. A thread that already uses the session can continue."""
    with _starting:
        if _running is not None:
            _running.of_homes.pop(home, None)


def session_started() -> bool:
    """Return whether this process has a running JVM."""
    return _running is not None and _alive(_running)


def running_jvm() -> Jvm:
    """Return the current JVM. Raise ExecutionError if Spark was not started."""
    if _running is None:
        raise ExecutionError("Spark is not started", hint="Call spark_session first.")
    return Jvm(_running.session, _running.log, _running.gateway.proc, _running.memory)


def stop_session(patience: float = _PATIENCE_SECONDS) -> int | None:
    """Stop the JVM and its sessions. Return the exit code of the JVM, or None if no JVM is running.

    The function waits ``patience`` seconds before it sends the next, stronger signal.
    """
    global _running
    with _starting:
        if _running is None:
            return None
        _discard(_running, patience)
        code: int | None = _running.gateway.proc.returncode
        _running = None
        return code


def log_path(home: Path | None) -> Path:
    """Return the path of a home's Spark log."""
    return (home if home is not None else cache_folder()) / "logs" / "spark.log"


def _start(home: Path | None, wanted: Mapping[str, str], jars: Sequence[Path]) -> _Running:
    check_spark_version()
    java = find_java()
    log = _open_log(log_path(home))
    written = log.stat().st_size if log.exists() else 0
    _log_python_to(log)
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    gateway = None
    try:
        with foreign_variables_hidden(), python_named(wanted), log.open("ab") as sink:
            gateway = start_jvm(java, wanted, sink, jars)
            with _interrupt_handler_restored():
                conf = SparkConf(loadDefaults=False).setAll(list(wanted.items()))
                context = SparkContext(conf=conf, gateway=gateway)
            session = SparkSession(context)
            if not in_one_process(wanted["spark.master"]):
                _check_executors(session)
    except (PySparkException, OSError, _jvm_error()) as problem:
        _close(gateway)
        raise ExecutionError(
            f"Spark did not start with Java {java.release} from {java.origin}: {_last_error(log, written)}",
            where=str(log),
            hint="Run `weft doctor`, and read the details in the log named above.",
        ) from problem
    except BaseException:  # Ctrl-C during the start must leave no JVM behind
        _close(gateway)
        raise
    reads_s3 = {jar.name for jar in jars} >= {jar.name for jar in listed_jars(S3_JARS)}
    return _Running(session, gateway, log, wanted["spark.driver.memory"], reads_s3)


def _check_executors(session: SparkSession) -> None:
    try:
        problem = what_executors_lack(session)
    except spark_errors() as error:
        problem = f"cannot run Weft's tasks: {root_cause(error)}"
    if problem is not None:
        raise ExecutionError(f"the executors of {session.sparkContext.master} {problem}", hint=EXECUTORS_HINT)


def _jvm_error() -> type[Exception]:
    from py4j.protocol import Py4JError

    error: type[Exception] = Py4JError
    return error


@contextmanager
def _interrupt_handler_restored() -> Iterator[None]:
    """Restore the Ctrl-C handler. The handler of pyspark may call the JVM in the middle of another call."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handler = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if handler is not None:
            signal.signal(signal.SIGINT, handler)


def _open_log(log: Path) -> Path:
    make_folder(log.parent)
    if log.exists() and log.stat().st_size > _LOG_LIMIT:
        log.replace(log.with_suffix(".log.1"))
    make_file(log)
    return log


def _log_python_to(log: Path) -> None:
    """Send the output of pyspark and py4j to the log file, including tracebacks of refused queries."""
    from pyspark.logger import PySparkLogger

    handler = logging.FileHandler(log, mode="a", encoding="utf-8", delay=True)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    for logger in (*map(logging.getLogger, _PYTHON_LOGGERS), *map(PySparkLogger.getLogger, _QUERY_LOGGERS)):
        logger.handlers = [handler]
        logger.propagate = False
        logger.setLevel(logging.WARNING)
    root = logging.getLogger()
    for earlier in [each for each in root.filters if isinstance(each, _Diverted)]:
        root.removeFilter(earlier)
    root.addFilter(_Diverted(handler))


class _Diverted(logging.Filter):
    """A filter of the root logger that sends the records of py4j to another handler."""

    def __init__(self, handler: logging.Handler) -> None:
        super().__init__()
        self.handler = handler

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the root logger should handle the record."""
        if Path(record.pathname).parent.name != "py4j":
            return True
        self.handler.handle(record)
        return False


def _last_error(log: Path, begin: int) -> str:
    """Return the last log line that mentions an error. Ignore the first ``begin`` bytes of the log."""
    lines = [line.strip() for line in log.read_bytes()[begin:].decode(errors="replace").splitlines()[-200:]]
    relevant = [line for line in lines if "rror" in line or "Exception" in line]
    return (relevant or lines or ["the log has no message"])[-1][:300]


def _alive(running: _Running) -> bool:
    return running.gateway.proc.poll() is None


def _discard(running: _Running, patience: float = _PATIENCE_SECONDS) -> None:
    from pyspark.sql import SparkSession

    if _alive(running):
        with suppress(_jvm_error(), OSError):  # a JVM that dies meanwhile is stopped, too
            running.session.stop()
    SparkSession._instantiatedSession = None
    _close(running.gateway, patience)


def _close(gateway: Any, patience: float = _PATIENCE_SECONDS) -> None:
    """Stop the JVM, and reset pyspark for a later start."""
    from pyspark import SparkContext

    SparkContext._gateway = None
    SparkContext._jvm = None
    SparkContext._active_spark_context = None
    if gateway is None:
        return
    with suppress(_jvm_error(), OSError):
        gateway.shutdown()
    with suppress(OSError):
        gateway.proc.stdin.close()
    for end in (lambda: None, gateway.proc.terminate, gateway.proc.kill):
        end()
        with suppress(TimeoutExpired):
            gateway.proc.wait(timeout=patience)
            return


def spark_errors() -> tuple[type[Exception], ...]:
    """Return the exception classes of Spark and the JVM. The import of pyspark makes the first call slow."""
    from pyspark.errors import PySparkException

    return PySparkException, ConnectionError, _jvm_error()


@contextmanager
def plain_errors(doing: str) -> Iterator[None]:
    """During the ``with`` block, convert exceptions of Spark or the JVM to ExecutionError. In the message, ``doing``
    completes the phrase "while …".

    After Ctrl-C, raise KeyboardInterrupt. pyspark calls the JVM while it handles Ctrl-C, and an error in that call
    would hide the interrupt.
    """
    try:
        yield
    except WeftError:
        raise
    except spark_errors() as problem:
        if interrupted(problem):
            raise KeyboardInterrupt from None
        where = str(_running.log) if _running is not None else None
        if _running is None or not _alive(_running):
            raise ExecutionError(
                f"Spark's JVM ended while {doing}", where=where, hint="Run the command again."
            ) from None
        raise ExecutionError(f"Spark failed while {doing}: {root_cause(problem)}", where=where) from problem


def interrupted(error: BaseException) -> bool:
    """Return whether the error occurred while Python handled Ctrl-C."""
    before = error.__context__
    return before is not None and (isinstance(before, KeyboardInterrupt) or interrupted(before))


def disk_is_full(error: Exception) -> bool:
    """Return whether an exception of the JVM, or one of its causes, reports a full disk.

    Only I/O exceptions and those of Weft's own Python tasks count, because others may contain the text of a query.
    """
    from pyspark.errors import PythonException

    if isinstance(error, PythonException):
        return any(word in error_text(error) for word in _FULL)
    with suppress(*spark_errors()):  # a dead JVM does not answer
        cause = getattr(error, "_origin", None) or getattr(error, "java_exception", None)
        while cause is not None:
            if cause.getClass().getName() in _OF_FILES and any(word in str(cause.getMessage()) for word in _FULL):
                return True
            cause = cause.getCause()
    return False


def rows_were_lost(error: Exception) -> bool:
    """Return whether Spark needed rows that it cannot compute again, and all executors that held them have ended."""
    return isinstance(error, spark_errors()) and _LOST in error_text(error)


def error_text(error: Exception) -> str:
    """Return the text of an error, even after the JVM has died."""
    try:
        return str(error)
    except spark_errors():
        return type(error).__name__


def root_cause(error: Exception) -> str:
    r"""Return the root cause of a JVM error in one line, without class names and stack traces.

    >>> root_cause(ValueError("An error occurred while calling o1.x.\n: a.b.Failed: aborted\nCaused by: a.B: no )"))
    'no )'
    """
    lines = [line.strip() for line in error_text(error).splitlines() if line.strip()]
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    relevant = [line for line in lines if not line.startswith(("An error occurred while calling", "at "))]
    message = causes[-1] if causes else (relevant or lines or [type(error).__name__])[0]
    return re.sub(r"^(?:: *)?(?:[\w$]+\.)+[\w$]+: *", "", message)[:300]
