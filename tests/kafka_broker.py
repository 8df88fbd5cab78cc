"""A Kafka broker for a test, in KRaft mode. Java runs it from jars of the central repository."""

from __future__ import annotations

import base64
import shutil
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from weft.runtime.jars import spark_folder
from weft.runtime.java import cache_folder, find_java

VERSION = "3.9.1"
SETTINGS = """process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
log.dirs={folder}/logs
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
auto.create.topics.enable=false
"""
IVY = """<ivy-module version="2.0"><info organisation="test" module="test"/><configurations><conf name="default"/>
</configurations><dependencies><dependency org="org.apache.kafka" name="kafka_2.13" rev="{version}"
conf="default-&gt;default"/></dependencies></ivy-module>"""
IVY_SETTINGS = """<ivysettings><settings defaultResolver="central"/>
<resolvers><ibiblio name="central" m2compatible="true"/></resolvers></ivysettings>"""


@contextmanager
def kafka_broker() -> Iterator[str]:
    """The ``host:port`` of the broker. If its jars cannot be downloaded, the test is skipped with a message."""
    java, jars = str(find_java().executable), _jars()
    folder = Path(tempfile.mkdtemp(prefix="weft-kafka-"))
    port, controller = _free_ports()
    settings = folder / "server.properties"
    settings.write_text(SETTINGS.format(port=port, controller=controller, folder=folder))
    run = [java, "-Xmx400m", "-cp", f"{jars}/*"]
    cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    formatted = [*run, "kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(settings)]
    subprocess.run(formatted, check=True, capture_output=True, timeout=120)
    with (folder / "log").open("wb") as log:
        broker = subprocess.Popen([*run, "kafka.Kafka", str(settings)], stdout=log, stderr=log)
    try:
        _await(port, broker)
        yield f"127.0.0.1:{port}"
    finally:
        broker.kill()
        broker.wait()
        shutil.rmtree(folder, ignore_errors=True)


def _jars() -> Path:
    """Return the folder of the broker's jars, which are downloaded once."""
    folder = cache_folder() / "test-jars" / f"kafka-{VERSION}"
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(dir=folder.parent))
    try:
        (work / "ivy.xml").write_text(IVY.format(version=VERSION))
        (work / "settings.xml").write_text(IVY_SETTINGS)
        (ivy,) = (spark_folder() / "jars").glob("ivy-*.jar")
        command = [str(find_java().executable), "-jar", str(ivy), "-settings", str(work / "settings.xml")]
        command += ["-cache", str(work / "cache"), "-ivy", str(work / "ivy.xml"), "-types", "jar", "bundle"]
        command += ["-confs", "default", "-retrieve", str(work / "jars" / "[artifact]-[revision].[ext]")]
        told = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False).stdout
        if not (work / "jars" / f"kafka_2.13-{VERSION}.jar").exists() or "UNRESOLVED" in told:
            pytest.skip(f"NOT TRIED ON KAFKA: the jars of its broker could not be fetched: {told[-300:]}")
        (work / "jars").replace(folder)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return folder


def _free_ports() -> tuple[int, int]:
    with socket.socket() as one, socket.socket() as other:
        one.bind(("127.0.0.1", 0))
        other.bind(("127.0.0.1", 0))
        return one.getsockname()[1], other.getsockname()[1]


def _await(port: int, broker: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + 120
    while time.monotonic() < until:
        assert broker.poll() is None, "the broker has ended"
        with socket.socket() as tried:
            if tried.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)
    raise AssertionError("the broker does not answer")
