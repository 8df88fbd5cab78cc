"""The pair of versions and the folder of jars; no Spark, no network."""

from __future__ import annotations

from pathlib import Path

import pytest

from weft.errors import ExecutionError
from weft.runtime import jars
from weft.runtime.jars import CONNECTOR, check_pair, find_jars, jar_folder, present_jars
from weft.runtime.java import Java

JAVA = Java(Path("/none"), Path("/none/bin/java"), 17, "nowhere")


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("WEFT_JARS", raising=False)


def _put(folder: Path, **sizes: int) -> None:
    folder.mkdir(parents=True)
    for name, size in sizes.items():
        (folder / f"{name}.jar").write_bytes(b"x" * size)
    (folder / "MANIFEST").write_text("".join(f"{size} {name}.jar\n" for name, size in sizes.items()))


def test_the_pair_that_is_installed_is_the_one_that_is_tried() -> None:
    assert check_pair() == ("4.1.3", "4.4.0")


@pytest.mark.parametrize("pair", [("4.1.4", "4.4.0"), ("4.1.3", "4.4.1"), ("4.2.0", "4.4.0"), ("4.1.3", "(none)")])
def test_other_pairs_are_refused_with_the_command_that_mends_it(
    pair: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jars, "_installed", lambda package: pair[package == "delta-spark"])
    with pytest.raises(ExecutionError) as refusal:
        check_pair()
    assert pair[0] in refusal.value.message
    assert refusal.value.hint == "Run pip install pyspark==4.1.3 delta-spark==4.4.0"


def test_whole_jars_are_taken_as_they_are() -> None:
    _put(jar_folder(), a=3, b=5)
    assert [jar.name for jar in find_jars(JAVA)] == ["a.jar", "b.jar"]


def test_a_jar_that_is_missing_or_cut_means_resolving_again(monkeypatch: pytest.MonkeyPatch) -> None:
    _put(jar_folder(), a=3, b=5)
    (jar_folder() / "b.jar").write_bytes(b"x")
    assert present_jars() == ()
    resolved: list[Java] = []
    monkeypatch.setattr(jars, "_resolve", lambda java, wanted: resolved.append(java))
    find_jars(JAVA)
    assert resolved == [JAVA]


def test_weft_jars_names_a_folder_to_use_instead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_JARS", str(tmp_path / "mine"))
    (tmp_path / "mine").mkdir()
    with pytest.raises(ExecutionError, match="without jars"):
        find_jars(JAVA)
    (tmp_path / "mine" / "delta.jar").write_bytes(b"")
    assert find_jars(JAVA) == (tmp_path / "mine" / "delta.jar",)


def test_a_resolution_that_fails_leaves_nothing_and_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jars, "_retrieve", lambda *given: ":: UNRESOLVED DEPENDENCIES ::\nServer error")
    with pytest.raises(ExecutionError, match="Server error") as refusal:
        find_jars(JAVA)
    assert refusal.value.hint is not None
    assert "WEFT_IVYSETTINGS" in refusal.value.hint
    assert [path.name for path in jar_folder().parent.iterdir()] == ["lock"]


def test_a_folder_of_jars_without_the_connector_is_refused_where_a_topic_is_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEFT_JARS", str(tmp_path))
    (tmp_path / "delta.jar").write_bytes(b"")
    assert find_jars(JAVA) == (tmp_path / "delta.jar",)
    with pytest.raises(ExecutionError, match="without Spark's connector for Kafka") as refusal:
        find_jars(JAVA, CONNECTOR)
    assert refusal.value.hint is not None
    assert "spark-sql-kafka-0-10_2.13-4.1.3.jar" in refusal.value.hint
    (tmp_path / "spark-sql-kafka-0-10_2.13-4.1.3.jar").write_bytes(b"")
    assert len(find_jars(JAVA, CONNECTOR)) == 2
