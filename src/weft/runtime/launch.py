"""Start the JVM of Spark.

If Spark runs in one process on this machine, Weft starts Java directly. pyspark's launcher would run two shell scripts
and a second JVM only to build the command line. The class path contains only jars, because a class-data archive
requires this (``runtime/class_archive.py``). On a cluster, Weft uses pyspark's launcher, which knows the options of
each master.

For a typed command, the JVM uses only the quick compiler, because an optimizing compiler would not pay off.
Long-running processes and Python programs that call Weft use both compilers.
"""

from __future__ import annotations

import os
import shlex
import signal
import struct
import sys
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
from weft.runtime.settings import in_one_process, on_this_machine

_MAIN: Final = "org.apache.spark.api.python.PythonGatewayServer"
_CONNECTION: Final = "_PYSPARK_DRIVER_CONN_INFO_PATH"
_POLL_SECONDS: Final = 0.02
_FOREIGN_PREFIXES: Final = ("SPARK_", "PYSPARK_")
"""Prefixes of environment variables that could make pyspark start another Spark."""
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
    # These options come from org.apache.spark.launcher.JavaModuleOptions in Spark 4.1. The module jdk.incubator.vector
    # is omitted, because only Spark's machine learning uses it.
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
    """Declare that this process runs a typed command and ends soon. Call this function before the JVM starts."""
    global _short_lived
    _short_lived = True


def start_jvm(java: Java, wanted: Mapping[str, str], sink: BufferedWriter, jars: Sequence[Path] = ()) -> Any:
    """Start the JVM, connect to it, and return py4j's gateway with the process as ``proc``.

    ``wanted`` contains Spark's settings. ``jars`` are jars besides pyspark's own. They come last on the class path, and
    their classes are not in the class-data archive. ``sink`` receives the output of the JVM. Exceptions of pyspark,
    py4j and the operating system pass through. After an exception, no JVM process remains.
    """
    streams = {"stdout": sink, "stderr": sink, "start_new_session": True}
    if not in_one_process(wanted["spark.master"]):
        return _launched_by_scripts(java, wanted, streams)
    with TemporaryDirectory(prefix="weft-") as folder:
        connection = Path(folder, "connection")
        environ = {**jvm_environment(java, wanted["spark.master"]), _CONNECTION: str(connection)}
        environ["SPARK_HOME"] = str(spark_folder())
        command = _command(java, wanted, jars)
        process = Popen(command, stdin=PIPE, env=environ, preexec_fn=_ignore_ctrl_c, **streams)  # type: ignore[call-overload]
        try:
            _await(connection, process)
            gateway = _connected(*read_connection(connection.read_bytes()))
        except BaseException:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise
    gateway.proc = process
    return gateway


def jvm_environment(java: Java, master: str) -> dict[str, str]:
    """Return the environment variables except for those that would make pyspark start another Spark.

    The environment itself does not change, because other threads use it. The machines of a cluster must reach the
    driver by its own address.
    """
    own = {name: value for name, value in os.environ.items() if not name.startswith(_FOREIGN_PREFIXES)}
    return {
        **own,
        "JAVA_HOME": str(java.home),
        "SPARK_CONF_DIR": str(CONF_FOLDER),
        **({"SPARK_LOCAL_IP": "127.0.0.1"} if on_this_machine(master) else {}),
        "SPARK_CONNECT_MODE": "0",
    }


@contextmanager
def foreign_variables_hidden() -> Iterator[None]:
    """During the ``with`` block, hide environment variables that would make pyspark use another Spark.

    No other variable changes, because other threads read the environment at the same time.
    """
    with _changed(dict.fromkeys(name for name in os.environ if name.startswith(_FOREIGN_PREFIXES))):
        yield


@contextmanager
def python_named(wanted: Mapping[str, str]) -> Iterator[None]:
    """During the ``with`` block, name the Python that runs tasks: ``spark.pyspark.python``, or else this one.

    pyspark reads the name from the environment when it connects to the JVM.
    """
    with _changed({"PYSPARK_PYTHON": wanted.get("spark.pyspark.python", sys.executable)}):
        yield


@contextmanager
def _changed(wanted: Mapping[str, str | None]) -> Iterator[None]:
    """Set these environment variables during the ``with`` block. The value None removes a variable."""
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
    """Start the JVM with pyspark's launcher.

    The settings are in a file that only this user can read, because all users can read the arguments of a process.
    """
    from pyspark.java_gateway import launch_gateway

    own = jvm_environment(java, wanted["spark.master"])
    variables = {name: own.get(name) for name in ("JAVA_HOME", "SPARK_CONF_DIR", "SPARK_LOCAL_IP")}
    with TemporaryDirectory(prefix="weft-") as folder:
        file = Path(folder, "spark.properties")
        file.touch(mode=0o600)
        file.write_text("".join(f"{name}={_property(value)}\n" for name, value in wanted.items()), encoding="utf-8")
        submit = f"--properties-file {shlex.quote(str(file))} pyspark-shell"
        with _changed({**variables, "PYSPARK_SUBMIT_ARGS": submit}):
            return launch_gateway(popen_kwargs=streams)  # type: ignore[no-untyped-call]


def _property(value: str) -> str:
    r"""Return the value in the notation of Java's properties files.

    >>> print(_property(" a\\b\nc"))
    \ a\\b\nc
    """
    escaped = value.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    return f"\\{escaped}" if escaped.startswith((" ", "\t")) else escaped


def _connected(port: int, secret: str) -> Any:
    """Connect without ``pyspark.java_gateway.launch_gateway``, because that function passes the secret through the
    environment.

    A program that another thread starts would then inherit the secret.
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


def class_path() -> tuple[Path, ...]:
    """Return the jars of pyspark in a fixed order."""
    return tuple(sorted((spark_folder() / "jars").glob("*.jar")))


def jvm_options(wanted: Mapping[str, str]) -> tuple[str, ...]:
    """Return the Java options for a JVM with these Spark settings, except for the choice of compilers."""
    return (
        *_MODULE_OPTIONS,
        f"-Xmx{wanted['spark.driver.memory']}",
        *wanted["spark.driver.extraJavaOptions"].split(),
        f"-Dlog4j2.configurationFile={(CONF_FOLDER / 'log4j2.properties').as_uri()}",
    )


def _command(java: Java, wanted: Mapping[str, str], jars: Sequence[Path]) -> list[str]:
    path, options = class_path(), jvm_options(wanted)
    return [
        str(java.executable),
        *options,
        *((_QUICK_COMPILER,) if _short_lived else ()),
        *archive_options(class_archive(java, path, options), wanted["spark.driver.memory"]),
        "-cp",
        os.pathsep.join(map(str, (*path, *jars))),
        _MAIN,
    ]


def _ignore_ctrl_c() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _await(connection: Path, process: Popen[bytes]) -> None:
    while not connection.exists():  # it is renamed into place
        if process.poll() is not None:
            raise ChildProcessError(f"Java ended with exit code {process.returncode}")
        time.sleep(_POLL_SECONDS)


def read_connection(raw: bytes) -> tuple[int, str]:
    """Parse the bytes that Spark's gateway writes. Return the port and the secret.

    The bytes are the port, the length of the secret, and the secret in UTF-8. Both numbers are big-endian int32.

    >>> read_connection(bytes([0, 0, 1, 1, 0, 0, 0, 2]) + b"xy")
    (257, 'xy')
    """
    port, length = struct.unpack(">ii", raw[:8])
    return port, raw[8 : 8 + length].decode()
