"""A home on a standalone cluster of two workers gives the answers of a home on one machine, also if workers die.

The data of the home is on S3, and its catalog on PostgreSQL. If the driver dies, a second one takes over. The executors
write data files. They have what their tasks need, or a session is refused.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from postgresql_server import Server
from s3_server import environment, new_bucket
from scenario.cluster_session import Answers
from standalone_cluster import Cluster
from weft.runtime.executors import pack_environment
from weft.storage.cleaning import deletable_files
from weft.storage.table import Table
from weft.store import S3Access, store_of

SESSION = Path(__file__).with_name("cluster_session.py")
LOST = Path(__file__).with_name("lost_executors.py")
RESULT = sum(number % 7 == 3 for number in range(100_000))
EXECUTORS = Path(__file__).with_name("executor_session.py")
LOADING = Path(__file__).with_name("loading_session.py")
START = """
import sys
from pathlib import Path
from weft.errors import WeftError
from weft.runtime.session import spark_session, stop_session
try:
    spark_session(Path(sys.argv[1]))
    print("started")
except WeftError as error:
    print(error.message)
stop_session()
"""


@pytest.mark.timeout(600)
def test_a_worker_and_a_driver_die_and_the_answers_are_those_of_one_machine(
    cluster: Cluster, s3_access: S3Access, database_server: Server, demo_answers: Answers, tmp_path: Path
) -> None:
    """A worker dies in the third tick and the driver in the fifth. A second driver with its own folder takes over."""
    catalog, store = database_server.uri(database_server.new_database()), new_bucket(s3_access) / "home"
    surroundings = on(cluster) | environment(s3_access) | {"WEFT_FILES_ROOT": str(tmp_path / "files")}

    def driver(folder: str, *arguments: str, **variables: str) -> subprocess.Popen[str]:
        command = [sys.executable, str(SESSION), str(tmp_path / folder), catalog, store.uri, *arguments]
        return subprocess.Popen(command, env=surroundings | variables, stdout=subprocess.PIPE, text=True)

    with driver("first", WEFT_FAILPOINT="tick.written:5") as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "busy\n"
        cluster.kill_worker(1)
        cluster.start_worker()
    assert first.returncode == -signal.SIGKILL
    with driver("second", "go-on") as second:
        assert second.stdout is not None
        found = json.loads(second.stdout.readline())
    assert found == json.loads(json.dumps(demo_answers))
    lines = (tmp_path / "files" / "unanswered.jsonl").read_text().splitlines()
    assert [json.loads(line)["_ordinal"] for line in lines] == [ordinal for ordinal, *_ in found["unanswered"]]


def on(cluster: Cluster) -> dict[str, str]:
    return {**os.environ, "WEFT_SPARK_MASTER": cluster.url, "WEFT_SPARK_MEMORY": "1g"}


@pytest.mark.slow
def test_one_attempt_of_each_task_is_committed_and_the_files_of_others_expire(cluster: Cluster, tmp_path: Path) -> None:
    command = [sys.executable, str(EXECUTORS), str(tmp_path)]
    done = subprocess.run(command, env=on(cluster), capture_output=True, text=True, timeout=250, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert sorted(found["rows"]) == list(range(1_000))
    committed, there = sorted(found["committed"]), {name for name in found["there"] if name.startswith("part-")}
    assert [name[:10] for name in committed] == [f"part-{partition:05d}" for partition in range(4)]
    left = there - set(committed)
    assert {name[:10] for name in left} >= {"part-00000", "part-00001"}
    for name in there:
        os.utime(tmp_path / "table" / name, (0, 0))
    unneeded = deletable_files(Table(store_of(tmp_path / "table")), 0, 0).data
    assert {place.name for place in unneeded} == left


@pytest.mark.slow  # tests/spark/test_distributed.py loads from S3 by the tasks of a local Spark
def test_executors_load_files_from_s3_as_one_machine_does(
    cluster: Cluster, s3_access: S3Access, tmp_path: Path
) -> None:
    bucket = new_bucket(s3_access)
    for name in ("a", "b"):
        lines = (f'{n},"{name}, {n}",2026-03-{1 + n % 30:02}\n' if n % 50 else f'{n},"open\n' for n in range(400))
        (bucket / f"in/{name}.csv").put("".join(["id,text,at\n", *lines]).encode())
    found = []
    for name, surroundings in (("one", {**os.environ}), ("several", on(cluster))):
        command = [sys.executable, str(LOADING), str(tmp_path / name), f"{bucket}/in/*.csv"]
        environ = surroundings | environment(s3_access)
        done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=250, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        found.append(json.loads(done.stdout))
    assert [each.pop("by") for each in found] == [0, 1]
    assert found[0] == found[1]
    assert min(found[0]["counts"][:2]) > 10


def bare_python() -> str:
    """Return a Python without Weft and its packages."""
    bare = getattr(sys, "_base_executable", sys.executable)
    assert bare != sys.executable, "the tests run in a virtual environment"
    return bare


@pytest.mark.slow
def test_executors_without_weft_are_refused(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "weft.toml").write_text(f'[spark]\n"spark.pyspark.python" = "{bare_python()}"\n')
    assert (
        started(cluster, tmp_path) == f"the executors of {cluster.url} have no pyarrow instead of {version('pyarrow')}"
    )


@pytest.mark.slow  # tests/unit/runtime/test_executors.py imports what is in the archive
def test_executors_with_the_archive_have_weft(cluster: Cluster, tmp_path: Path) -> None:
    wanted = {**pack_environment(tmp_path / "packages.tar.gz"), "spark.pyspark.python": bare_python()}
    lines = (f'"{name}" = "{value}"\n' for name, value in wanted.items())
    (tmp_path / "weft.toml").write_text(f"[spark]\n{''.join(lines)}")
    assert started(cluster, tmp_path) == "started"


def started(cluster: Cluster, home: Path) -> str:
    command = [sys.executable, "-c", START, str(home)]
    done = subprocess.run(command, env=on(cluster), capture_output=True, text=True, timeout=250, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_tables_of_a_computation_survive_an_executor_and_are_computed_again_after_two(cluster: Cluster) -> None:
    environment = {**os.environ, "WEFT_SPARK_MASTER": cluster.url, "WEFT_SPARK_MEMORY": "1g"}
    command = [sys.executable, str(LOST)]
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        for killed, times in ((1, 1), (2, 2)):
            assert process.stdout.readline() == "kept\n"
            for number in list(cluster.workers)[:killed]:
                cluster.kill_worker(number)
            if killed == 2:
                cluster.start_worker()
            cluster.start_worker()
            process.stdin.write("\n")
            assert process.stdout.readline() == f"{RESULT} {times}\n"
