"""Threads of one process share a session, its settings, the environment and the collector: each is put back."""

from __future__ import annotations

import gc
import os
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from weft.execution.collector import fewer_collections
from weft.execution.spark_runner import Limits, SparkRunner
from weft.runtime import launch, settings
from weft.runtime.settings import rows_only, scanning, small

STARTED = {
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.autoBroadcastJoinThreshold": "10485760b",
    "spark.sql.codegen.wholeStage": "true",
    "spark.sql.codegen.factoryMode": "FALLBACK",
    "spark.sql.optimizer.excludedRules": "",
    "spark.sql.maxSinglePartitionBytes": "128m",
    "spark.sql.shuffle.partitions": "2",
}


class _Conf(dict[str, str]):
    """A session's settings: each call lets other threads go on, as a call of the JVM does."""

    def get(self, name: str, default: Any = None) -> Any:
        threading.Event().wait(random.random() / 2_000)
        return super().get(name, default)

    def set(self, name: str, value: str) -> None:
        threading.Event().wait(random.random() / 2_000)
        self[name] = value


def _in_threads(work: Callable[[int], None], threads: int = 12) -> None:
    problems: list[BaseException] = []

    def run(number: int) -> None:
        try:
            work(number)
        except BaseException as error:  # noqa: BLE001 - raised in the test's thread
            problems.append(error)

    going = [threading.Thread(target=run, args=(number,)) for number in range(threads)]
    for each in going:
        each.start()
    for each in going:
        each.join()
    assert not problems, problems[0]


def test_settings_of_a_shared_session_are_those_of_the_block_and_put_back_afterwards() -> None:
    session = SimpleNamespace(conf=_Conf(STARTED), sparkContext=SimpleNamespace(master="local[2]"))
    blocks = [(small, settings._SMALL), (scanning, settings._SCAN), (rows_only, settings._ROWS_ONLY)]

    def work(number: int) -> None:
        for turn in range(3):
            block, wanted = blocks[(number + turn) % len(blocks)]
            with block(session):  # type: ignore[operator,arg-type]
                assert {name: session.conf.get(name) for name in wanted} == wanted

    _in_threads(work)
    assert dict(session.conf) == STARTED


def test_a_write_of_answers_has_its_settings_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    session = SimpleNamespace(conf=_Conf(STARTED))
    reader = SimpleNamespace(spark=session)
    monkeypatch.setattr(SparkRunner, "_ready", lambda self: reader)

    def work(number: int) -> None:
        attempts = SparkRunner(lambda: session, None, Limits(9.0, 100))  # type: ignore[arg-type,return-value]
        attempts._small = bool(number % 2)
        with attempts.planned():
            wanted = "false" if number % 2 else "true"
            assert {session.conf.get("spark.sql.adaptive.enabled") for _ in range(5)} == {wanted}

    _in_threads(work)
    assert dict(session.conf) == STARTED


def test_the_collectors_pace_is_put_back_by_the_last_thread() -> None:
    before = gc.get_threshold()
    entered = threading.Barrier(6)

    def work(number: int) -> None:
        with fewer_collections():
            entered.wait()
            threading.Event().wait(number / 500)
            assert gc.get_threshold()[0] >= 200_000

    _in_threads(work, 6)
    assert gc.get_threshold() == before


@contextmanager
def _variables(patch: pytest.MonkeyPatch) -> Iterator[None]:
    for name, value in (("SPARK_HOME", "/elsewhere"), ("PYSPARK_PIN_THREAD", "false"), ("WEFT_QUERY_ROWS", "7")):
        patch.setenv(name, value)
    yield


def test_other_threads_see_the_whole_environment_while_spark_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()

    def work(number: int) -> None:
        if number == 0:
            for _ in range(300):
                with launch.foreign_variables_hidden():
                    assert "SPARK_HOME" not in os.environ
            over.set()
            return
        while not over.is_set():
            assert os.environ.get("WEFT_QUERY_ROWS") == "7" and "PATH" in os.environ
            assert "PYSPARK_GATEWAY_SECRET" not in os.environ

    with _variables(monkeypatch):
        _in_threads(work, 6)
        assert (os.environ["SPARK_HOME"], os.environ["PYSPARK_PIN_THREAD"]) == ("/elsewhere", "false")
        java: Any = SimpleNamespace(home="/java")
        own = launch.jvm_environment(java, "local[2]")
        assert own["JAVA_HOME"] == "/java" and not {"SPARK_HOME", "PYSPARK_PIN_THREAD"} & own.keys()
        assert own["WEFT_QUERY_ROWS"] == "7" and os.environ.get("JAVA_HOME") != "/java"
