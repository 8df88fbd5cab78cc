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
from collections.abc import Mapping, Sequence
from contextlib import suppress
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
    from pyspark import SparkConf
    from pyspark.java_gateway import launch_gateway

    streams = {"stdout": sink, "stderr": sink, "start_new_session": True}
    if not in_one_process(wanted["spark.master"]):
        conf = SparkConf(loadDefaults=False).setAll(list(wanted.items()))
        return launch_gateway(conf, streams)  # type: ignore[no-untyped-call]
    with TemporaryDirectory(prefix="weft-") as folder:
        told = Path(folder, "connection")
        environ = {**os.environ, _CONNECTION: str(told), "SPARK_HOME": str(spark_folder()), "SPARK_CONNECT_MODE": "0"}
        command = _command(java, jars, wanted, more)
        process = Popen(command, stdin=PIPE, env=environ, preexec_fn=_ignore_ctrl_c, **streams)  # type: ignore[call-overload]
        try:
            _await(told, process)
            port, secret = read_connection(told.read_bytes())
            os.environ.update(PYSPARK_GATEWAY_PORT=str(port), PYSPARK_GATEWAY_SECRET=secret)
            gateway = launch_gateway()  # type: ignore[no-untyped-call]
        except BaseException:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise
    gateway.proc = process
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
