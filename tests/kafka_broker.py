"""A Kafka broker for a test, in KRaft mode. Java runs it from jars of the central repository."""

from __future__ import annotations

import base64
import os
import shutil
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from weft.runtime.jars import fetch_jars
from weft.runtime.java import find_java

JARS = Path(__file__).with_name("kafka_jars.txt")
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
log.cleaner.backoff.ms=100
"""


@contextmanager
def kafka_broker() -> Iterator[str]:
    """The ``host:port`` of the broker. Its jars are downloaded once."""
    jars = fetch_jars(JARS)
    folder = Path(tempfile.mkdtemp(prefix="weft-kafka-"))
    port, controller = _free_ports()
    settings = folder / "server.properties"
    settings.write_text(SETTINGS.format(port=port, controller=controller, folder=folder))
    # Kafka's tool for new folders is a JVM of its own, and writes the same file.
    cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    (folder / "logs").mkdir()
    (folder / "logs" / "meta.properties").write_text(f"version=1\ncluster.id={cluster}\nnode.id=1\n")
    command = [str(find_java().executable), "-XX:TieredStopAtLevel=1", "-Xmx400m"]
    command += ["-cp", os.pathsep.join(map(str, jars)), "kafka.Kafka", str(settings)]
    with (folder / "log").open("wb") as log:
        broker = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        _await(port, broker)
        yield f"127.0.0.1:{port}"
    finally:
        broker.kill()
        broker.wait()
        shutil.rmtree(folder, ignore_errors=True)


def create_topic(server: str, topic: str, partitions: int, **settings: str) -> None:
    """Create a topic. ``settings`` are Kafka's, with ``_`` for each dot of their names."""
    admin = AdminClient({"bootstrap.servers": server})
    config = {name.replace("_", "."): value for name, value in settings.items()}
    admin.create_topics([NewTopic(topic, partitions, 1, config=config)])[topic].result(60)


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
