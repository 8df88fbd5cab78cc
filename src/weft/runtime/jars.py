"""Download the jars that pyspark lacks from a Maven repository, and check the version of pyspark.

A *list of jars* is a text file. Each line has a Maven coordinate (``group:artifact:version``) and the SHA-256 of the
jar; lines that begin with ``#`` are comments. Weft uses a jar only if its SHA-256 is the listed one. Only one process
at a time downloads jars.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from weft.configuration import configuration
from weft.errors import ExecutionError
from weft.runtime.java import cache_folder

SPARK_VERSION: Final = "4.1.3"
S3_JARS: Final = Path(__file__).with_name("s3_jars.txt")
"""The list of the jars with which Spark reads and writes ``s3a://``."""

_PATIENCE_SECONDS: Final = 60.0
_PIECE_BYTES: Final = 1 << 20


@dataclass(frozen=True)
class Jar:
    """A jar of a Maven repository, with the SHA-256 of the file in hexadecimal digits."""

    group: str
    artifact: str
    version: str
    sha256: str

    @property
    def name(self) -> str:
        """The name of the file."""
        return f"{self.artifact}-{self.version}.jar"

    @property
    def path(self) -> str:
        """The path of the file in a Maven repository.

        >>> Jar("org.apache.hadoop", "hadoop-aws", "3.4.2", "").path
        'org/apache/hadoop/hadoop-aws/3.4.2/hadoop-aws-3.4.2.jar'
        """
        return f"{self.group.replace('.', '/')}/{self.artifact}/{self.version}/{self.name}"


def listed_jars(listing: Path) -> tuple[Jar, ...]:
    """Return the jars of a list."""
    jars = []
    for line in listing.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            coordinate, sha256 = line.split()
            group, artifact, number = coordinate.split(":")
            jars.append(Jar(group, artifact, number, sha256))
    return tuple(jars)


def local_jars(listing: Path) -> tuple[Path, ...]:
    """Return the paths of the jars of a list. Raise ExecutionError if the cache folder does not have all of them."""
    wanted = listed_jars(listing)
    missing = [jar for jar in wanted if not _present(jar)]
    if missing:
        raise ExecutionError(
            f"the cache folder does not have the jar {missing[0].name}",
            where=str(_folder()),
            hint="Run `weft prepare --s3`, which downloads the jars.",
        )
    return tuple(_folder() / jar.name for jar in wanted)


def fetch_jars(listing: Path) -> tuple[Path, ...]:
    """Return the paths of the jars of a list, and download those that the cache folder does not have.

    Raise ExecutionError if a download fails, or if the repository has another file.
    """
    wanted = listed_jars(listing)
    if not all(map(_present, wanted)):
        with _only_one_process():
            repository = configuration().maven or _central()
            for jar in wanted:
                if not _present(jar):
                    _download(jar, f"{repository.rstrip('/')}/{jar.path}")
    return tuple(_folder() / jar.name for jar in wanted)


def _folder() -> Path:
    return cache_folder() / "jars"


def _present(jar: Jar) -> bool:
    try:
        return hashlib.sha256((_folder() / jar.name).read_bytes()).hexdigest() == jar.sha256
    except FileNotFoundError:
        return False


@contextmanager
def _only_one_process() -> Iterator[None]:
    _folder().mkdir(parents=True, exist_ok=True)
    with (_folder() / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _download(jar: Jar, url: str) -> None:
    """Download a jar into a draft file, and rename the file if it is the listed one."""
    from http.client import HTTPException
    from urllib.request import build_opener

    draft = _folder() / f"{jar.name}.draft"
    digest = hashlib.sha256()
    try:
        # The certificates and the proxy are those of the environment.
        with build_opener().open(url, timeout=_PATIENCE_SECONDS) as reply, draft.open("wb") as file:
            while piece := reply.read(_PIECE_BYTES):
                digest.update(piece)
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())
        if digest.hexdigest() != jar.sha256:
            raise ExecutionError(
                f"the repository has another {jar.name}: its SHA-256 is {digest.hexdigest()} instead of {jar.sha256}",
                where=url,
                hint="Weft does not use the file. Let WEFT_MAVEN name a repository with the original.",
            )
        draft.replace(_folder() / jar.name)
    except (OSError, HTTPException) as problem:
        raise ExecutionError(
            f"{jar.name} could not be downloaded: {problem}",
            where=url,
            hint="Check the network and the proxy (HTTPS_PROXY), or let WEFT_MAVEN name a mirror of Maven Central.",
        ) from None
    finally:
        draft.unlink(missing_ok=True)


def _central() -> str:
    """Return the address of Maven Central from the settings of Ivy, which pyspark contains."""
    from zipfile import ZipFile

    for jar in (spark_folder() / "jars").glob("ivy-*.jar"):
        with ZipFile(jar) as contents:
            settings = contents.read("org/apache/ivy/core/settings/repository.properties").decode()
        if found := re.search(r"^ivy\.ibiblio\.default\.artifact\.root *= *(https://\S+)", settings, re.MULTILINE):
            return found[1]
    raise ExecutionError(
        "pyspark does not name Maven Central", hint="Let WEFT_MAVEN name Maven Central or a mirror (https://…)."
    )


def check_spark_version() -> str:
    """Return the version of pyspark. Raise ExecutionError if it is not the tested version."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        installed = version("pyspark")
    except PackageNotFoundError:
        installed = "(none)"
    if installed != SPARK_VERSION:
        raise ExecutionError(
            f"Weft needs pyspark {SPARK_VERSION}, but pyspark {installed} is installed",
            hint=f"Run pip install pyspark=={SPARK_VERSION}",
        )
    return SPARK_VERSION


def spark_folder() -> Path:
    """Return the folder of pyspark without importing pyspark. Call ``check_spark_version`` first."""
    spec = find_spec("pyspark")
    folders = list(spec.submodule_search_locations or ()) if spec else []
    return Path(folders[0]) if folders else Path()
