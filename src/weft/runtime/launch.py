"""How the JVM of Spark is started.

Where Spark runs in one process, on the cores of this machine, Java is started by itself: pyspark's own way goes through
two shell scripts and a second JVM that only puts the command line together.  The class path then has jars only, and
Delta's among them, as a class-data archive asks for (``runtime/class_archive.py``).  On a cluster Spark's own way
stays, which knows what each of its masters wants.

A command that somebody typed ends before what Java's optimizing compiler makes would pay for itself: its JVM is given
the quick compiler alone.  A process that lasts, or calls Weft from Python, has both.
"""

from __future__ import annotations

import os
import signal
import struct
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from io import BufferedWriter
from pathlib import Path
from subprocess import PIPE, Popen
from tempfile import TemporaryDirectory
from typing import Any, Final

from weft.runtime.class_archive import archive_options, class_archive
from weft.runtime.jars import spark_folder
from weft.runtime.java import Java
from weft.runtime.settings import in_one_process

_MAIN: Final = "org.apache.spark.api.python.PythonGatewayServer"
_CONNECTION: Final = "_PYSPARK_DRIVER_CONN_INFO_PATH"
_POLL_SECONDS: Final = 0.02
_FOREIGN_PREFIXES: Final = ("SPARK_", "PYSPARK_")
"""Environment variables that would start another Spark than the one in Weft's own environment."""
_JAVA_NAMES: Final = (
    "org.apache.spark.SparkConf",
    "org.apache.spark.api.java.*",
    "org.apache.spark.api.python.*",
    "org.apache.spark.ml.python.*",
    "org.apache.spark.mllib.api.python.*",
    "org.apache.spark.resource.*",
    "org.apache.spark.sql.Encoders",
    "org.apache.spark.sql.OnSuccessCall",
    "org.apache.spark.sql.functions",
    "org.apache.spark.sql.classic.*",
    "org.apache.spark.sql.api.python.*",
    "org.apache.spark.sql.hive.*",
    "scala.Tuple2",
)
"""What pyspark imports into the names of its gateway."""

OPENED: Final = (
    "java.base/java.lang",
    "java.base/java.lang.invoke",
    "java.base/java.lang.reflect",
    "java.base/java.io",
    "java.base/java.net",
    "java.base/java.nio",
    "java.base/java.util",
    "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.atomic",
    "java.base/jdk.internal.ref",
    "java.base/sun.nio.ch",
    "java.base/sun.nio.cs",
    "java.base/sun.security.action",
    "java.base/sun.util.calendar",
    "java.security.jgss/sun.security.krb5",
)
_MODULE_OPTIONS: Final = (
    # What org.apache.spark.launcher.JavaModuleOptions of Spark 4.1 says, less the module jdk.incubator.vector, which
    # only Spark's machine learning uses.
    "-XX:+IgnoreUnrecognizedVMOptions",
    *(f"--add-opens={package}=ALL-UNNAMED" for package in OPENED),
    "-Djdk.reflect.useDirectMethodHandle=false",
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dio.netty.allocator.type=pooled",
    "-Dio.netty.handler.ssl.defaultEndpointVerificationAlgorithm=NONE",
    "--enable-native-access=ALL-UNNAMED",
)
_QUICK_COMPILER: Final = "-XX:TieredStopAtLevel=1"
CONF_FOLDER: Final = Path(__file__).with_name("spark_conf")

_short_lived = False


def expect_short_life() -> None:
    """Says that this process ends soon, before its JVM starts: a command that somebody typed."""
    global _short_lived
    _short_lived = True


def start_jvm(
    java: Java, jars: Sequence[Path], wanted: Mapping[str, str], sink: BufferedWriter, more: Sequence[Path] = ()
) -> Any:
    """Starts the JVM and connects to it; py4j's gateway, its process as ``proc``.

    ``wanted`` are Spark's settings, ``jars`` those besides pyspark's own, ``more`` those that come after them, which
    the class-data archive does without; ``sink`` takes what the JVM prints.  Raises what pyspark, py4j and the
    operating system raise; no process is left behind then.
    """
    streams = {"stdout": sink, "stderr": sink, "start_new_session": True}
    if not in_one_process(wanted["spark.master"]):
        return _launched_by_scripts(java, wanted, streams)
    with TemporaryDirectory(prefix="weft-") as folder:
        told = Path(folder, "connection")
        environ = {**jvm_environment(java), _CONNECTION: str(told), "SPARK_HOME": str(spark_folder())}
        command = _command(java, jars, wanted, more)
        process = Popen(command, stdin=PIPE, env=environ, preexec_fn=_ignore_ctrl_c, **streams)  # type: ignore[call-overload]
        try:
            _await(told, process)
            gateway = _connected(*read_connection(told.read_bytes()))
        except BaseException:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise
    gateway.proc = process
    return gateway


def jvm_environment(java: Java) -> dict[str, str]:
    """The environment of the JVM: this process's without what would start another Spark.

    The process's own is not changed: other threads read it, and start programs with it.
    """
    own = {name: value for name, value in os.environ.items() if not name.startswith(_FOREIGN_PREFIXES)}
    return {
        **own,
        "JAVA_HOME": str(java.home),
        "SPARK_CONF_DIR": str(CONF_FOLDER),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_CONNECT_MODE": "0",
    }


@contextmanager
def foreign_variables_hidden() -> Iterator[None]:
    """Takes variables that would make pyspark use another Spark out of the environment within the block.

    No other variable is touched, since other threads read the environment meanwhile.
    """
    with _changed(dict.fromkeys(name for name in os.environ if name.startswith(_FOREIGN_PREFIXES))):
        yield


@contextmanager
def _changed(wanted: Mapping[str, str | None]) -> Iterator[None]:
    """Within the block the environment has these variables; None: it has not."""
    before = {name: os.environ.get(name) for name in wanted}
    try:
        _set_variables(wanted)
        yield
    finally:
        _set_variables(before)


def _set_variables(wanted: Mapping[str, str | None]) -> None:
    for name, value in wanted.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def _launched_by_scripts(java: Java, wanted: Mapping[str, str], streams: dict[str, Any]) -> Any:
    """Spark's own way to start, which takes the environment of this process."""
    from pyspark import SparkConf
    from pyspark.java_gateway import launch_gateway

    conf = SparkConf(loadDefaults=False).setAll(list(wanted.items()))
    own = jvm_environment(java)
    with _changed({name: own[name] for name in ("JAVA_HOME", "SPARK_CONF_DIR", "SPARK_LOCAL_IP")}):
        return launch_gateway(conf, streams)  # type: ignore[no-untyped-call]


def _connected(port: int, secret: str) -> Any:
    """A gateway to a JVM that runs, with the names that pyspark uses.

    As ``pyspark.java_gateway.launch_gateway``, which would take port and secret from the environment of this process:
    programs that another thread starts meanwhile would get the secret.
    """
    from py4j.clientserver import ClientServer, JavaParameters, PythonParameters
    from py4j.java_gateway import java_import

    gateway = ClientServer(
        java_parameters=JavaParameters(port=port, auth_token=secret, auto_convert=True),
        python_parameters=PythonParameters(port=0, eager_load=False),
    )
    for name in _JAVA_NAMES:
        java_import(gateway.jvm, name)
    return gateway


def class_path(jars: Sequence[Path]) -> tuple[Path, ...]:
    """The jars that the JVM loads classes from: those given, then pyspark's own, in the same order each time."""
    return (*jars, *sorted((spark_folder() / "jars").glob("*.jar")))


def jvm_options(wanted: Mapping[str, str]) -> tuple[str, ...]:
    """Java's options for a JVM with these settings of Spark; which compilers it has is not among them."""
    return (
        *_MODULE_OPTIONS,
        f"-Xmx{wanted['spark.driver.memory']}",
        *wanted["spark.driver.extraJavaOptions"].split(),
        f"-Dlog4j2.configurationFile={(CONF_FOLDER / 'log4j2.properties').as_uri()}",
    )


def _command(java: Java, jars: Sequence[Path], wanted: Mapping[str, str], more: Sequence[Path]) -> list[str]:
    path, options = class_path(jars), jvm_options(wanted)
    return [
        str(java.executable),
        *options,
        *((_QUICK_COMPILER,) if _short_lived else ()),
        *archive_options(class_archive(java, path, options), wanted["spark.driver.memory"]),
        "-cp",
        os.pathsep.join(map(str, (*path, *more))),
        _MAIN,
    ]


def _ignore_ctrl_c() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _await(told: Path, process: Popen[bytes]) -> None:
    while not told.exists():  # it is renamed into place
        if process.poll() is not None:
            raise ChildProcessError(f"Java ended with exit code {process.returncode}")
        time.sleep(_POLL_SECONDS)


def read_connection(told: bytes) -> tuple[int, str]:
    """The port and the secret that Spark's gateway writes: two big-endian int32, port and length, then UTF-8.

    >>> read_connection(bytes([0, 0, 1, 1, 0, 0, 0, 2]) + b"xy")
    (257, 'xy')
    """
    port, length = struct.unpack(">ii", told[:8])
    return port, told[8 : 8 + length].decode()
