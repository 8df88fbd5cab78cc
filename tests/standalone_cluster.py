"""A Spark standalone cluster on this machine: a master and workers, each a JVM of its own."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from loopback import free_ports
from weft.runtime.jars import spark_folder
from weft.runtime.java import find_java

_HOST = "127.0.0.1"
_PATIENCE_SECONDS = 180.0
_DEPLOY = "org.apache.spark.deploy"


@dataclass
class Cluster:
    """A running cluster. ``url`` is the master URL of Spark. ``workers`` maps a worker's number to its process."""

    url: str
    state: str
    folder: Path
    workers: dict[int, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start_worker(self) -> int:
        """Start a worker with one core and 1 GiB, and return its number.

        Each worker has an address of its own, because Spark repeats a slow task only on another machine.
        """
        number = max(self.workers, default=0) + 1
        host = f"127.0.0.{number + 1}"
        options = ["-c", "1", "-m", "1g", "-d", str(self.folder / f"worker-{number}"), "--host", host, self.url]
        self.workers[number] = _daemon(self.folder, f"{_DEPLOY}.worker.Worker", options, host)
        return number

    def kill_worker(self, number: int) -> None:
        """Kill a worker and its executors with SIGKILL."""
        _kill(self.workers.pop(number))

    def await_workers(self, count: int) -> None:
        """Wait until the master has ``count`` live workers."""
        until = time.monotonic() + _PATIENCE_SECONDS
        while (alive := self._alive()) != count:
            assert time.monotonic() < until, f"the master has {alive} workers instead of {count}"
            time.sleep(0.1)

    def sessions(self) -> int:
        """Return how many Spark sessions the master has seen."""
        state = self._state()
        return len(state["activeapps"]) + len(state["completedapps"])

    def _alive(self) -> int:
        with suppress(OSError):
            return sum(each["state"] == "ALIVE" for each in self._state()["workers"])
        return -1

    def _state(self) -> dict[str, list[dict[str, Any]]]:
        with urllib.request.urlopen(self.state, timeout=5) as reply:
            state: dict[str, list[dict[str, Any]]] = json.load(reply)
        return state


@contextmanager
def standalone_cluster(workers: int = 2) -> Iterator[Cluster]:
    """Start a master and the workers, and stop them after the ``with`` block."""
    folder = Path(tempfile.mkdtemp(prefix="weft-cluster-"))
    port, page = free_ports(2)
    cluster = Cluster(f"spark://{_HOST}:{port}", f"http://{_HOST}:{page}/json/", folder)
    options = ["--host", _HOST, "--port", str(port), "--webui-port", str(page)]
    master = _daemon(folder, f"{_DEPLOY}.master.Master", options)
    try:
        cluster.await_workers(0)
        for _ in range(workers):
            cluster.start_worker()
        cluster.await_workers(workers)
        yield cluster
    finally:
        for process in (*cluster.workers.values(), master):
            _kill(process)
        shutil.rmtree(folder, ignore_errors=True)


def _daemon(folder: Path, main: str, options: list[str], host: str = _HOST) -> subprocess.Popen[bytes]:
    java = find_java()
    own = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    # Spark's scripts set the version of Scala, from which a worker derives the class path of an executor.
    spark = {"SPARK_HOME": str(spark_folder()), "SPARK_LOCAL_IP": host, "SPARK_SCALA_VERSION": "2.13"}
    environment = {**own, **spark, "JAVA_HOME": str(java.home)}
    command = [str(java.executable), "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", f"{spark_folder() / 'jars'}/*", main]
    with (folder / f"{main.rpartition('.')[2]}.log").open("ab") as log:
        return subprocess.Popen(
            [*command, *options], env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            start_new_session=True,
        )  # fmt: skip


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill the process and its children, such as the executors of a worker."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
