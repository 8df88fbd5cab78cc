"""The class-data archive with a real Java: one process creates it, and the next process uses it.

No process uses an incomplete archive, and a missing archive stops no process.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from weft.runtime.archiving import wanted_archive
from weft.runtime.class_archive import ClassArchive, archive_options
from weft.runtime.jars import spark_folder
from weft.runtime.java import find_java
from weft.runtime.launch import class_path

# The creation of an archive takes a core for most of a minute.
pytestmark = pytest.mark.slow

MAKE = """
import sys
from pathlib import Path
from weft.runtime.archiving import make_archive
from weft.runtime.launch import expect_short_life
from weft.runtime.session import running_jvm, spark_session
expect_short_life()
def rehearse():
    spark_session(Path(sys.argv[1]))
    print(running_jvm().process.pid, flush=True)
print(make_archive(rehearse))
"""
USE = """
import sys
from pathlib import Path
from weft.runtime.session import spark_session, stop_session
print(spark_session(Path(sys.argv[1])).range(3).count())
stop_session()
"""


@pytest.fixture(scope="module")
def environ(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Set a separate cache folder, a pyspark of links and a small memory in the environment."""
    folder = tmp_path_factory.mktemp("archive")
    pyspark = _linked_pyspark(folder / "python")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WEFT_CACHE", str(folder / "cache"))
        patch.setenv("PYTHONPATH", str(pyspark.parent), prepend=os.pathsep)
        patch.setattr("weft.runtime.launch.spark_folder", lambda: pyspark)
        patch.setenv("WEFT_SPARK_MEMORY", "512m")
        patch.delenv("WEFT_CLASS_ARCHIVE", raising=False)
        yield folder


def _linked_pyspark(parent: Path) -> Path:
    """Make a pyspark that consists of links, except for a copy of the smallest jar, which a test may change."""
    own, theirs = parent / "pyspark", spark_folder()
    (own / "jars").mkdir(parents=True)
    for each in (*theirs.iterdir(), *(theirs / "jars").iterdir()):
        if each.name != "jars":
            (own / each.relative_to(theirs)).symlink_to(each)
    copied = min((own / "jars").glob("*.jar"), key=lambda jar: jar.stat().st_size)
    copied.unlink()
    shutil.copy(theirs / "jars" / copied.name, copied)
    return own


def _python(script: str, folder: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", script, str(folder / "home")]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)


def _archive() -> ClassArchive:
    archive = wanted_archive()
    assert archive is not None
    return archive


def _killed_while_writing(maker: subprocess.Popen[str], folder: Path) -> None:
    """Kill the process that creates the archive, and its JVM, as soon as the JVM writes."""
    assert maker.stdout is not None
    jvm = int(maker.stdout.readline())
    until = time.monotonic() + 120
    while not list(folder.glob("*.draft")):
        assert time.monotonic() < until
        time.sleep(0.02)
    for process in (jvm, maker.pid):
        os.killpg(process, signal.SIGKILL)
    maker.communicate()


@pytest.fixture(scope="module")
def made(environ: Path) -> ClassArchive:
    """The archive of a third process. The first process was killed, and the second found the first process at work."""
    archive = _archive()
    first = _python(MAKE, environ)
    while not (archive.file.parent / "lock").exists() and first.poll() is None:
        time.sleep(0.02)
    time.sleep(0.2)
    second = _python(MAKE, environ)
    assert second.communicate(timeout=60)[0].split() == ["elsewhere"]
    _killed_while_writing(first, archive.file.parent)
    assert not archive.there()
    assert list(archive.file.parent.glob("*.draft"))
    third = _python(MAKE, environ)
    assert third.communicate(timeout=200)[0].split()[1:] == ["made"]
    assert {file.suffix for file in archive.file.parent.iterdir()} == {".jsa", ".manifest", ""}
    return archive


def test_the_next_jvm_takes_its_classes_from_it(made: ClassArchive, environ: Path) -> None:
    log = environ / "classes.log"
    os.environ["JDK_JAVA_OPTIONS"] = f"-Xlog:class+load:file={log}"
    try:
        result = _python(USE, environ).communicate(timeout=120)[0]
    finally:
        del os.environ["JDK_JAVA_OPTIONS"]
    assert result.split() == ["3"]
    loaded = log.read_text().splitlines()
    session = next(line for line in loaded if " org.apache.spark.SparkContext source" in line)
    assert "shared objects file" in session
    assert sum("shared objects file" in line for line in loaded) > 5_000


def _from_archive(result: Path, options: Sequence[str]) -> bool:
    """Return whether a JVM with these options takes Spark's classes from an archive. The JVM ends at once, because its
    input is empty.
    """
    path = os.pathsep.join(map(str, class_path()))
    main = "org.apache.spark.api.python.PythonGatewayServer"
    done = subprocess.run(
        [str(find_java().executable), *options, "-Xlog:class+load", "-cp", path, main],
        env={**os.environ, "_PYSPARK_DRIVER_CONN_INFO_PATH": str(result)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return any(f" {main} source: shared objects file" in line for line in done.stdout.splitlines())


def test_a_damaged_one_and_a_stale_one_are_passed_over(made: ClassArchive, tmp_path: Path) -> None:
    options = archive_options(made, "1g")
    result = tmp_path / "connection"
    assert _from_archive(result, options)
    whole = made.file.read_bytes()
    middle = len(whole) // 2
    for name, damaged in {
        "changed": whole[:middle] + bytes(4096) + whole[middle + 4096 :],
        "empty": b"",
        "text": b"no archive\n",
    }.items():
        other = tmp_path / name
        other.write_bytes(damaged)
        assert not _from_archive(result, [each.replace(str(made.file), str(other)) for each in options]), name
    made.file.chmod(0o600)
    os.truncate(made.file, middle)
    assert archive_options(made, "1g") == ()
    made.file.write_bytes(whole)
    assert archive_options(made, "1g") == options
    jar = next(jar for jar in class_path() if not jar.is_symlink())
    before = jar.stat().st_mtime_ns
    os.utime(jar, ns=(before - 10**12, before - 10**12))
    try:
        assert _archive().file != made.file
        assert archive_options(_archive(), "1g") == ()
        assert not _from_archive(result, options)
    finally:
        os.utime(jar, ns=(before, before))
