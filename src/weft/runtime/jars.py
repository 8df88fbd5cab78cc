"""Download Delta's jars once. If the home has a topic, also download the jars of Spark's Kafka connector.

The versions of pyspark and delta-spark are fixed, because other pairs start and then fail in the middle of a query
(design, section 7). Ivy, which is part of pyspark, resolves the jars in a separate process. Ivy uses only the central
repository. The download therefore does not depend on the machine's ``~/.m2`` and does not start Spark.
"""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

from weft.configuration import configuration
from weft.errors import ExecutionError
from weft.runtime.java import Java, cache_folder, trust_store

SPARK_VERSION: Final = "4.1.3"
DELTA_VERSION: Final = "4.4.0"
_MODULE: Final = "delta-spark_4.1_2.13"

_EXCLUDED: Final = (
    # These jars are part of pyspark, or only other catalogs need them. With these jars, the download would have 86 MB
    # in place of 13.
    ("org.scala-lang", "*"),
    ("org.slf4j", "*"),
    ("org.roaringbitmap", "*"),
    ("com.google.code.findbugs", "*"),
    ("io.unitycatalog", "*"),
    ("org.apache.hadoop", "*"),
    ("org.apache.parquet", "*"),
    ("com.github.luben", "zstd-jni"),
    ("org.apache.logging.log4j", "*"),
)
_MANIFEST: Final = "MANIFEST"


@dataclass(frozen=True)
class JarSet:
    """Jars that are resolved together. ``title`` names the jars in messages, and ``folder`` is a folder in the cache.

    ``modules`` contains triples (organisation, name, version). Dependencies are included except for those in
    ``excluded``. With ``alone``, no dependencies are included.
    """

    title: str
    folder: str
    modules: tuple[tuple[str, str, str], ...]
    excluded: tuple[tuple[str, str], ...] = ()
    alone: bool = False

    @property
    def first(self) -> str:
        """The name of the main jar."""
        return self.modules[0][1]


DELTA: Final = JarSet(
    "Delta's jars", f"{SPARK_VERSION}-{DELTA_VERSION}", (("io.delta", _MODULE, DELTA_VERSION),), _EXCLUDED
)
CONNECTOR: Final = JarSet(
    "Spark's connector for Kafka",
    f"{SPARK_VERSION}-kafka",
    (
        ("org.apache.spark", "spark-sql-kafka-0-10_2.13", SPARK_VERSION),
        # The module has no release for some patch versions, but the classes are the same in all releases of 4.1.
        ("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "4.1.1"),
        ("org.apache.kafka", "kafka-clients", "3.9.1"),
        ("org.apache.commons", "commons-pool2", "2.12.1"),
    ),
    alone=True,  # pyspark contains the dependencies
)

_SETTINGS: Final = """<ivysettings>
  <settings defaultResolver="central"/>
  <resolvers><ibiblio name="central" m2compatible="true"/></resolvers>
</ivysettings>
"""


def check_pair() -> tuple[str, str]:
    """Return the (pyspark, delta-spark) versions. Raise ExecutionError if the versions are not the tested pair."""
    installed = (_installed("pyspark"), _installed("delta-spark"))
    if installed != (SPARK_VERSION, DELTA_VERSION):
        raise ExecutionError(
            f"Weft needs pyspark {SPARK_VERSION} with delta-spark {DELTA_VERSION}, "
            f"but pyspark {installed[0]} with delta-spark {installed[1]} is installed",
            hint=f"Run pip install pyspark=={SPARK_VERSION} delta-spark=={DELTA_VERSION}",
        )
    return SPARK_VERSION, DELTA_VERSION


def _installed(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "(none)"


def jar_folder(wanted: JarSet = DELTA) -> Path:
    """Return the path of the folder with the jars. The folder may not exist yet. The variable ``WEFT_JARS`` overrides
    the default.
    """
    return configuration().jars or cache_folder() / "jars" / wanted.folder


def present_jars(wanted: JarSet = DELTA) -> tuple[Path, ...]:
    """Return the jars in the folder, sorted by name. Return an empty tuple if the folder is incomplete."""
    folder = jar_folder(wanted)
    if configuration().jars is not None:
        return tuple(sorted(folder.glob("*.jar")))
    try:
        lines = (folder / _MANIFEST).read_text().splitlines()
    except FileNotFoundError:
        return ()
    jars = []
    for line in lines:
        size, name = line.split(" ", 1)
        jar = folder / name
        if not jar.exists() or jar.stat().st_size != int(size):
            return ()
        jars.append(jar)
    return tuple(jars)


def find_jars(java: Java, wanted: JarSet = DELTA) -> tuple[Path, ...]:
    """Return the jars that Spark needs at its start. Download missing jars, which takes some seconds.

    Only one process at a time downloads jars. Raise ExecutionError if the download fails.
    """
    jars = present_jars(wanted)
    lacks = not jars or (wanted is CONNECTOR and not any(jar.name.startswith(wanted.first) for jar in jars))
    if configuration().jars is not None and lacks:
        raise ExecutionError(
            f"WEFT_JARS names a folder without {wanted.title if jars else 'jars'}",
            where=str(jar_folder(wanted)),
            hint=(
                f"Put {wanted.first}-{wanted.modules[0][2]}.jar and its dependencies into the folder, or unset "
                "WEFT_JARS."
            ),
        )
    if jars:
        return jars
    with _only_one_process(wanted):
        jars = present_jars(wanted)
        if not jars:
            _resolve(java, wanted)
            jars = present_jars(wanted)
    return jars


@contextmanager
def _only_one_process(wanted: JarSet) -> Iterator[None]:
    folder = jar_folder(wanted).parent
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _resolve(java: Java, wanted: JarSet) -> None:
    final = jar_folder(wanted)
    with tempfile.TemporaryDirectory(dir=final.parent, prefix="resolving-") as text:
        work = Path(text)
        output = _retrieve(java, work, (), wanted)
        store = trust_store(java) if "PKIX" in output or "SSLHandshake" in output else None
        if store is not None:
            output = _retrieve(java, work, (f"-Djavax.net.ssl.trustStore={store}",), wanted)
        jars = sorted((work / "jars").glob("*.jar"))
        if not any(jar.name.startswith(wanted.first) for jar in jars) or "UNRESOLVED DEPENDENCIES" in output:
            raise _unresolved(output, wanted)
        lines = [f"{jar.stat().st_size} {jar.name}\n" for jar in jars]
        (work / "jars" / _MANIFEST).write_text("".join(lines))
        shutil.rmtree(final, ignore_errors=True)
        (work / "jars").replace(final)


def _retrieve(java: Java, work: Path, options: tuple[str, ...], jars: JarSet) -> str:
    """Return the output of Ivy, because Ivy's exit code is 0 even after many errors."""
    settings = work / "ivysettings.xml"
    settings.write_text(_SETTINGS)
    wanted = work / "ivy.xml"
    wanted.write_text(_ivy_module(jars))
    chosen = configuration().ivysettings
    command = [str(java.executable), *options, "-jar", str(_ivy_jar())]
    command += ["-settings", chosen or str(settings), "-cache", str(work / "cache"), "-ivy", str(wanted)]
    command += ["-types", "jar", "-confs", "default", "-retrieve", str(work / "jars" / "[artifact]-[revision].[ext]")]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=600, stdin=subprocess.DEVNULL, check=False
        )
    except subprocess.TimeoutExpired:
        return "the repository did not answer within ten minutes"
    return done.stdout + done.stderr


def _ivy_module(jars: JarSet) -> str:
    excluded = "".join(f'<exclude org="{escape(org)}" module="{escape(module)}"/>' for org, module in jars.excluded)
    transitive = ' transitive="false"' if jars.alone else ""
    wanted = "".join(
        f'<dependency org="{org}" name="{name}" rev="{rev}" conf="default->default"{transitive}>{excluded}</dependency>'
        for org, name, rev in jars.modules
    )
    return (
        '<ivy-module version="2.0"><info organisation="weft" module="weft"/>'
        f'<configurations><conf name="default"/></configurations><dependencies>{wanted}</dependencies></ivy-module>'
    )


def spark_folder() -> Path:
    """Return the folder of pyspark without importing pyspark. Call ``check_pair`` first."""
    spec = find_spec("pyspark")
    folders = list(spec.submodule_search_locations or ()) if spec else []
    return Path(folders[0]) if folders else Path()


def _ivy_jar() -> Path:
    for jar in sorted((spark_folder() / "jars").glob("ivy-*.jar")):
        return jar
    raise ExecutionError("pyspark has no ivy jar", hint=f"Run pip install --force-reinstall pyspark=={SPARK_VERSION}")


def _unresolved(output: str, wanted: JarSet) -> ExecutionError:
    lines = [line.strip() for line in output.splitlines() if "error" in line.lower() or "PKIX" in line]
    reason = lines[0][:200] if lines else output.strip()[-200:]
    return ExecutionError(
        f"{wanted.title} could not be downloaded: {reason}",
        where=str(jar_folder(wanted)),
        hint=(
            "Check the network and the proxy, set WEFT_IVYSETTINGS to an Ivy settings file with a mirror, or set "
            "WEFT_JARS to a folder with the jars. The first start downloads the jars from the central Maven "
            "repository."
        ),
    )
