"""What an archive is named by, when it is used, and what is left of others; no JVM is started."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from weft.runtime import class_archive as archives
from weft.runtime.archiving import _alone, _clear
from weft.runtime.class_archive import ClassArchive, archive_options, class_archive, make_in_background, recording
from weft.runtime.java import Java

OPTIONS = ("-Xmx1g", "-XX:+UseParallelGC")


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("WEFT_CLASS_ARCHIVE", raising=False)
    monkeypatch.setattr(archives, "_missed", None)


def _java(root: Path, release: str = 'JAVA_VERSION="17.0.15"', *, own_archive: bool = True) -> Java:
    """A folder that looks like a Java's."""
    (root / "bin").mkdir(parents=True)
    (root / "lib" / "server").mkdir(parents=True)
    (root / "bin" / "java").touch()
    (root / "release").write_text(release)
    (root / "lib" / "modules").write_bytes(b"modules")
    if own_archive:
        (root / "lib" / "server" / "classes.jsa").touch()
    return Java(root, root / "bin" / "java", 17, "a test")


@pytest.fixture
def java(tmp_path: Path) -> Java:
    return _java(tmp_path / "java")


@pytest.fixture
def jars(tmp_path: Path) -> tuple[Path, ...]:
    found = (tmp_path / "a.jar", tmp_path / "b.jar")
    for jar in found:
        jar.write_bytes(b"jar")
    return found


def _longer(java: Java, jars: tuple[Path, ...]) -> None:
    jars[1].write_bytes(b"another")


def _newer(java: Java, jars: tuple[Path, ...]) -> None:
    os.utime(jars[1], ns=(1, 1))


def _other_release(java: Java, jars: tuple[Path, ...]) -> None:
    (java.home / "release").write_text('JAVA_VERSION="17.0.16"')


def _installed_again(java: Java, jars: tuple[Path, ...]) -> None:
    os.utime(java.home / "lib" / "modules", ns=(1, 1))


@pytest.mark.parametrize("change", [_longer, _newer, _other_release, _installed_again])
def test_what_an_archive_depends_on_is_in_its_name(
    java: Java, jars: tuple[Path, ...], change: Callable[[Java, tuple[Path, ...]], None]
) -> None:
    before = class_archive(java, jars, OPTIONS)
    assert before == class_archive(java, jars, OPTIONS)
    change(java, jars)
    assert before.file != class_archive(java, jars, OPTIONS).file


def test_order_and_options_are_in_its_name_and_memory_is_not(java: Java, jars: tuple[Path, ...]) -> None:
    before = class_archive(java, jars, OPTIONS)
    assert before.file != class_archive(java, jars[::-1], OPTIONS).file
    assert before.file != class_archive(java, jars, ("-Xmx1g", "-XX:+UseG1GC")).file
    assert before.file == class_archive(java, jars, ("-Xmx2g", "-XX:+UseParallelGC")).file


def test_another_java_has_another_archive(tmp_path: Path, java: Java, jars: tuple[Path, ...]) -> None:
    other = class_archive(_java(tmp_path / "other"), jars, OPTIONS)
    assert other.file != class_archive(java, jars, OPTIONS).file


def _made(archive: ClassArchive) -> ClassArchive:
    archive.file.parent.mkdir(parents=True, exist_ok=True)
    for layer in archive.layers:
        layer.write_bytes(b"classes")
    archive.manifest.write_text(archive.sizes())
    return archive


def test_it_is_used_once_it_is_there(java: Java, jars: tuple[Path, ...]) -> None:
    archive = class_archive(java, jars, OPTIONS)
    assert archive_options(archive, "1g") == ()
    _made(archive)
    assert archive_options(archive, "1g")[-1] == f"-XX:SharedArchiveFile={archive.file}"
    assert "-Xshare:auto" in archive_options(archive, "1g")


def test_a_java_without_an_archive_of_its_own_gets_one_under_it(tmp_path: Path, jars: tuple[Path, ...]) -> None:
    archive = _made(class_archive(_java(tmp_path / "bare", own_archive=False), jars, OPTIONS))
    assert archive.own_base is not None
    assert archive_options(archive, "1g")[-1] == f"-XX:SharedArchiveFile={archive.own_base}:{archive.file}"
    with recording():
        assert archive_options(archive, "1g") == (
            f"-XX:SharedArchiveFile={archive.own_base}",
            f"-XX:ArchiveClassesAtExit={archive.draft}",
        )


@pytest.mark.parametrize("size", [0, 3, 8])
@pytest.mark.parametrize("layer", [0, 1])
def test_one_that_is_not_as_long_as_it_was_is_not_used(
    tmp_path: Path, jars: tuple[Path, ...], layer: int, size: int
) -> None:
    """A JVM that maps one that is cut short dies."""
    archive = _made(class_archive(_java(tmp_path / "bare", own_archive=False), jars, OPTIONS))
    archive.layers[layer].write_bytes(b"c" * size)
    assert not archive.there()
    assert archive_options(archive, "1g") == ()
    archive.layers[layer].unlink()
    assert archive_options(archive, "1g") == ()


@pytest.mark.parametrize("setting", ["off", "existing"])
def test_without_auto_no_archive_is_created_and_only_existing_uses_one(
    java: Java, jars: tuple[Path, ...], setting: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEFT_CLASS_ARCHIVE", setting)
    archive = class_archive(java, jars, OPTIONS)
    assert archive_options(archive, "1g") == ()
    assert not make_in_background()
    options = archive_options(_made(archive), "1g")
    if setting == "off":
        assert options == ()
    else:
        assert f"-XX:SharedArchiveFile={archive.file}" in options


@pytest.mark.parametrize("variable", ["JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS"])
def test_the_options_of_the_environment_have_an_archive_of_their_own(
    java: Java, jars: tuple[Path, ...], variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(variable, raising=False)
    without = class_archive(java, jars, OPTIONS)
    monkeypatch.setenv(variable, "-XX:-BytecodeVerificationRemote")
    assert class_archive(java, jars, OPTIONS) != without


def test_a_draft_is_not_yet_the_archive(java: Java, jars: tuple[Path, ...]) -> None:
    archive = class_archive(java, jars, OPTIONS)
    with recording():
        assert archive_options(archive, "1g") == (f"-XX:ArchiveClassesAtExit={archive.draft}",)
    assert archive.draft != archive.file
    archive.draft.parent.mkdir(parents=True)
    archive.draft.touch()
    assert not archive.there()
    assert archive_options(archive, "1g") == ()


def test_what_failed_once_is_not_tried_again_unasked(java: Java, jars: tuple[Path, ...]) -> None:
    archive = class_archive(java, jars, OPTIONS)
    assert archive_options(archive, "1g") == ()  # missed
    archive.failure.parent.mkdir(parents=True)
    archive.failure.write_text("the disk was full")
    assert not make_in_background()


def test_a_process_of_its_own_makes_it(
    tmp_path: Path, java: Java, jars: tuple[Path, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    result, program = tmp_path / "arguments", tmp_path / "python"
    program.write_text(
        f'#!/bin/sh\necho "$* $(nice) ${{WEFT_FAILPOINT-none}}" > {result}.draft; mv {result}.draft {result}\n'
    )
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    monkeypatch.setenv("WEFT_FAILPOINT", "ingest.written")
    archive_options(class_archive(java, jars, OPTIONS), "1g")  # missed
    assert make_in_background()
    until = time.monotonic() + 30
    while not result.exists():
        assert time.monotonic() < until
        time.sleep(0.01)
    assert result.read_text() == "-m weft prepare 19 none\n"


def test_nothing_is_made_unasked_where_no_jvm_missed_it() -> None:
    assert not make_in_background()


def test_only_one_makes_it(tmp_path: Path) -> None:
    with _alone(tmp_path / "lock") as first, _alone(tmp_path / "lock") as second:
        assert (first, second) == (True, False)
    with _alone(tmp_path / "lock") as third:
        assert third


def test_leftover_and_unused_files_are_removed(java: Java, jars: tuple[Path, ...]) -> None:
    archive = _made(class_archive(java, jars, OPTIONS))
    folder = archive.file.parent
    unused = _made(ClassArchive(folder / "spark-unused.jsa", folder / "spark-unused.java"))
    for file in (archive.failure, folder / "spark-1.77.draft", folder / "lock"):
        file.touch()
    month = 31 * 86_400
    now = archive.file.stat().st_mtime
    os.utime(unused.file, (now - month, now - month))
    _clear(folder)
    assert {file.name for file in folder.iterdir()} == {archive.file.name, archive.manifest.name, "lock"}


def test_using_it_keeps_it(java: Java, jars: tuple[Path, ...]) -> None:
    archive = _made(class_archive(java, jars, OPTIONS))
    os.utime(archive.file, (1, 1))
    archive_options(archive, "1g")
    assert archive.file.stat().st_mtime > 1
