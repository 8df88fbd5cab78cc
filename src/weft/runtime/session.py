"""Spark in this process, one JVM and a session for each home: started late, quiet, in UTC, with Delta (design, sections
7 and 8).

Starting takes 5 to 15 seconds, so nothing here runs on import and whatever needs no Spark never calls it.  The JVM's
standard output and error, Spark's log and the messages of pyspark and py4j all go to ``logs/spark.log`` of the home.
The JVM runs in a session of its own: Ctrl-C and SIGTERM reach Weft only, and when Weft's process ends, however it
ends, the JVM sees the end of its standard input and stops.
"""

from __future__ import annotations

import errno
import logging
import os
import re
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import Popen, TimeoutExpired
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from weft.access import make_file, make_folder
from weft.configuration import Configuration, configuration
from weft.errors import ExecutionError, WeftError
from weft.runtime.jars import CONNECTOR, check_pair, find_jars
from weft.runtime.java import cache_folder, find_java
from weft.runtime.launch import foreign_variables_hidden, start_jvm
from weft.runtime.settings import local_master, settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    Session: TypeAlias = SparkSession
    """What parts that may not import pyspark call the session in their annotations."""

_LOG_LIMIT: Final = 16 * 1024 * 1024
"""Bytes: a longer ``spark.log`` is set aside as ``spark.log.1`` at the next start."""

_PATIENCE_SECONDS: Final = 10.0
"""A JVM that was asked to end is given this long, and as long again once it was told to."""

_PYTHON_LOGGERS: Final = ("py4j", "pyspark")
_QUERY_LOGGERS: Final = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
"""pyspark writes every error of a query to these, as JSON on standard error unless told otherwise."""

_OF_FILES: Final = ("java.io.IOException", "java.io.FileNotFoundException", "java.nio.file.FileSystemException")
_FULL: Final = tuple(map(os.strerror, (errno.ENOSPC, errno.EDQUOT)))


@dataclass(frozen=True)
class _Running:
    """The JVM, and the session from which those of the homes are made; itself it is never given out."""

    session: SparkSession
    gateway: Any
    log: Path
    kafka: bool
    memory: str
    of_homes: dict[Path | None, SparkSession] = field(default_factory=dict)


@dataclass(frozen=True)
class Jvm:
    """The JVM of this process at one moment: whoever watches it must not end the one that comes after it."""

    session: SparkSession
    log: Path
    process: Popen[bytes]
    memory: str
    """What it has, such as ``2g``."""

    def lives(self) -> bool:
        """Whether it runs."""
        return self.process.poll() is None

    def end(self) -> None:
        """Kills it, whatever it is at, with all that it has started."""
        if self.process.poll() is not None:
            return  # the number may be another process's by now
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


_running: _Running | None = None
_starting: Final = threading.Lock()


def spark_session(
    home: Path | None, *, master: str | None = None, kafka: Callable[[], bool] = lambda: False
) -> SparkSession:
    """The session of a home: its temporary views and settings are seen by no other home's.

    The first call of a process starts the JVM.  ``home`` says whose ``logs/`` takes Spark's log then (None: the cache
    folder's).  ``master`` is Spark's master URL; by default the one of the settings, else all cores of this machine.
    ``kafka`` says whether the JVM is started with the connector for Kafka; it is asked only then.  Sessions whose JVM
    has died are replaced.  Raises ExecutionError where Java, the jars or the pair of Spark and Delta does not allow a
    start, naming the log.
    """
    global _running
    with _starting:
        if _running is not None and not _alive(_running):
            _discard(_running)
            _running = None
        if _running is None:
            chosen = configuration(home)
            _running = _start(home, master or chosen.spark_master or local_master(), kafka(), chosen)
        if home not in _running.of_homes:
            _running.of_homes[home] = _running.session.newSession()
        return _running.of_homes[home]


def release_session(home: Path | None) -> None:
    """Lets go of a home's session, with its views and settings; whoever still works in it may go on."""
    with _starting:
        if _running is not None:
            _running.of_homes.pop(home, None)


def require_connector() -> None:
    """Raises ExecutionError where the JVM that runs was started without the connector for Kafka."""
    if _running is not None and not _running.kafka:
        raise ExecutionError(
            "Spark runs in this process without its connector for Kafka, which it takes at its start only",
            hint="Stop the process (`weft serve`, for example), run this command by itself, and start it again: "
            "Spark starts with the connector where the home has a Kafka source.",
        )


def session_started() -> bool:
    """Whether this process has a JVM that lives."""
    return _running is not None and _alive(_running)


def running_jvm() -> Jvm:
    """The JVM that there is now; raises ExecutionError where there is none."""
    if _running is None:
        raise ExecutionError("Spark is not started", hint="ask for a session first")
    return Jvm(_running.session, _running.log, _running.gateway.proc, _running.memory)


def stop_session(patience: float = _PATIENCE_SECONDS) -> int | None:
    """Stops the sessions and waits for its JVM to end, each time ``patience`` seconds before it is made to.

    Its exit code; None, and nothing is done, where there is none.
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
    """Where Spark's log of a home is."""
    return (home if home is not None else cache_folder()) / "logs" / "spark.log"


def _start(home: Path | None, master: str, kafka: bool, chosen: Configuration) -> _Running:
    check_pair()
    java = find_java()
    jars = find_jars(java)
    more = tuple(jar for jar in find_jars(java, CONNECTOR) if jar not in jars) if kafka else ()
    log = _open_log(log_path(home))
    written = log.stat().st_size if log.exists() else 0
    _log_python_to(log)
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    wanted = settings(master, (*jars, *more), chosen)
    gateway = None
    try:
        with foreign_variables_hidden(), log.open("ab") as sink:
            gateway = start_jvm(java, jars, wanted, sink, more)
            with _interrupts_kept():
                conf = SparkConf(loadDefaults=False).setAll(list(wanted.items()))
                context = SparkContext(conf=conf, gateway=gateway)
            session = SparkSession(context)
    except (PySparkException, OSError, _jvm_error()) as problem:
        _close(gateway)
        raise ExecutionError(
            f"Spark did not start with Java {java.release} from {java.origin}: {_last_error(log, written)}",
            where=str(log),
            hint="run `weft doctor`; the log named above has the whole story",
        ) from problem
    except BaseException:  # Ctrl-C while starting: no JVM may stay behind
        _close(gateway)
        raise
    return _Running(session, gateway, log, kafka, wanted["spark.driver.memory"])


def _jvm_error() -> type[Exception]:
    from py4j.protocol import Py4JError

    error: type[Exception] = Py4JError
    return error


@contextmanager
def _interrupts_kept() -> Iterator[None]:
    """Keeps the handler of Ctrl-C that was there.

    pyspark puts one of its own in its place, which talks to the JVM in the middle of what is being said to it.
    """
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
    """Sends what pyspark and py4j would print, tracebacks of refused queries among it, to the log."""
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
    """Takes what py4j logs in nobody's name, tracebacks of interrupted calls among it, out of the root logger."""

    def __init__(self, handler: logging.Handler) -> None:
        super().__init__()
        self.handler = handler

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the record goes on its usual way."""
        if Path(record.pathname).parent.name != "py4j":
            return True
        self.handler.handle(record)
        return False


def _last_error(log: Path, begin: int) -> str:
    """The last line after the first ``begin`` bytes of the log that tells of an error, for a message of one line."""
    lines = [line.strip() for line in log.read_bytes()[begin:].decode(errors="replace").splitlines()[-200:]]
    telling = [line for line in lines if "rror" in line or "Exception" in line]
    return (telling or lines or ["no word from it"])[-1][:300]


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
    """Ends the JVM behind a gateway and makes pyspark forget it, so that a later start launches a new one."""
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
    """What Spark, the JVM and a JVM that is gone raise; asked only where something was raised: pyspark loads slowly."""
    from pyspark.errors import PySparkException

    return PySparkException, ConnectionError, _jvm_error()


@contextmanager
def plain_errors(doing: str) -> Iterator[None]:
    """Turns what Spark or the JVM raises within the block into ExecutionError; ``doing`` says what was being done.

    Ctrl-C stays what it is: pyspark speaks to the JVM while it passes the interrupt on, and what that raises takes its
    place.
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
                f"Spark's JVM ended while {doing}", where=where, hint="run the command again"
            ) from None
        raise ExecutionError(f"Spark failed while {doing}: {root_cause(problem)}", where=where) from problem


def interrupted(error: BaseException) -> bool:
    """Whether an error was raised while Ctrl-C was being handled."""
    before = error.__context__
    return before is not None and (isinstance(before, KeyboardInterrupt) or interrupted(before))


def disk_is_full(error: Exception) -> bool:
    """Whether an exception in the chain that the JVM raised says that there is no room on a disk.

    Its class tells: other exceptions may quote a query's text.
    """
    with suppress(*spark_errors()):  # a JVM that is gone tells nothing
        found = getattr(error, "_origin", None) or getattr(error, "java_exception", None)
        while found is not None:
            if found.getClass().getName() in _OF_FILES and any(word in str(found.getMessage()) for word in _FULL):
                return True
            found = found.getCause()
    return False


def told_by(error: Exception) -> str:
    """What an error says; py4j asks the JVM for some of it, which may be gone."""
    try:
        return str(error)
    except spark_errors():
        return type(error).__name__


def root_cause(error: Exception) -> str:
    """What a JVM error says at its root, in one line, without the classes and stacks around it.

    >>> root_cause(ValueError("An error occurred while calling o1.x.\\n: a.b.Failed: aborted\\nCaused by: a.B: no )"))
    'no )'
    """
    lines = [line.strip() for line in told_by(error).splitlines() if line.strip()]
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    telling = [line for line in lines if not line.startswith(("An error occurred while calling", "at "))]
    told = causes[-1] if causes else (telling or lines or [type(error).__name__])[0]
    return re.sub(r"^(?:: *)?(?:[\w$]+\.)+[\w$]+: *", "", told)[:300]
