"""The version of pyspark, and the download of jars from an HTTPS server of the test; no Spark."""

from __future__ import annotations

import hashlib
import re
import ssl
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import trustme

from weft.bench.delta_session import DELTA_JARS
from weft.errors import ExecutionError
from weft.runtime import jars
from weft.runtime.jars import S3_JARS, check_spark_version, fetch_jars, listed_jars, local_jars

FILES = {
    "/maven/org/example/one/1.0/one-1.0.jar": b"one" * 1000,
    "/maven/org/example/more/two/2.0/two-2.0.jar": b"two" * 1_000_000,
}
KAFKA_JARS = Path(__file__).parents[2] / "kafka_jars.txt"


@dataclass
class Mirror:
    """A Maven repository behind HTTPS. ``sent`` counts the requests by path."""

    url: str
    files: dict[str, bytes]
    sent: Counter[str] = field(default_factory=Counter)
    cut: bool = False
    """Whether the server closes the connection in the middle of a file."""


@pytest.fixture
def mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Mirror]:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "authority.pem"))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "authority.pem"))
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path / "cache"))
    running = Mirror("", dict(FILES))

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            running.sent[self.path] += 1
            content = running.files.get(self.path)
            self.send_response(200 if content is not None else 404)
            content = content or b""
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content[: len(content) // 2] if running.cut else content)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("127.0.0.1").configure_cert(context)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        running.url = f"https://127.0.0.1:{server.server_port}/maven"
        monkeypatch.setenv("WEFT_MAVEN", running.url)
        yield running
        server.shutdown()


@pytest.fixture
def listing(tmp_path: Path) -> Path:
    one, two = (hashlib.sha256(content).hexdigest() for content in FILES.values())
    file = tmp_path / "jars.txt"
    file.write_text(f"# Jars of the test.\norg.example:one:1.0 {one}\norg.example.more:two:2.0 {two}\n")
    return file


def _kept(tmp_path: Path) -> set[str]:
    return {file.name for file in (tmp_path / "cache" / "jars").iterdir()}


def test_the_version_that_is_installed_is_the_one_that_is_tried() -> None:
    assert check_spark_version() == "4.1.3"


@pytest.mark.parametrize("installed", ["4.1.4", "4.2.0", "3.5.7"])
def test_other_versions_are_refused_with_the_command_that_mends_it(
    installed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.metadata.version", lambda package: installed)
    with pytest.raises(ExecutionError, match=f"but pyspark {installed} is installed") as refusal:
        check_spark_version()
    assert refusal.value.hint == "Run pip install pyspark==4.1.3"


@pytest.mark.parametrize("file", [S3_JARS, DELTA_JARS, KAFKA_JARS], ids=lambda file: file.name)
def test_each_list_pins_every_jar_by_version_and_checksum(file: Path) -> None:
    wanted = listed_jars(file)
    assert len({jar.name for jar in wanted}) == len(wanted) >= 5
    assert all(re.fullmatch("[0-9a-f]{64}", jar.sha256) and re.search("[0-9]", jar.version) for jar in wanted)


def test_what_pyspark_contains_is_in_no_list_for_spark() -> None:
    theirs = {file.name.rpartition("-")[0] for file in (jars.spark_folder() / "jars").glob("*.jar")}
    assert {jar.artifact for file in (S3_JARS, DELTA_JARS) for jar in listed_jars(file)} & theirs == set()


def test_jars_are_downloaded_once(mirror: Mirror, listing: Path, tmp_path: Path) -> None:
    with pytest.raises(ExecutionError, match=r"does not have the jar one-1\.0\.jar") as refusal:
        local_jars(listing)
    assert refusal.value.hint is not None and "weft prepare --s3" in refusal.value.hint
    with ThreadPoolExecutor(4) as threads:
        result = list(threads.map(fetch_jars, [listing] * 4))
    assert result == [tuple(tmp_path / "cache" / "jars" / name for name in ("one-1.0.jar", "two-2.0.jar"))] * 4
    assert [file.read_bytes() for file in result[0]] == list(FILES.values())
    assert mirror.sent == dict.fromkeys(FILES, 1)
    assert local_jars(listing) == result[0]
    assert _kept(tmp_path) == {"one-1.0.jar", "two-2.0.jar", "lock"}


def test_a_damaged_jar_is_downloaded_again(mirror: Mirror, listing: Path) -> None:
    one, two = fetch_jars(listing)
    two.write_bytes(two.read_bytes()[:-1] + b"x")
    with pytest.raises(ExecutionError, match=r"does not have the jar two-2\.0\.jar"):
        local_jars(listing)
    assert fetch_jars(listing) == (one, two) == local_jars(listing)
    assert sorted(mirror.sent.values()) == [1, 2]


def test_another_file_than_the_listed_one_is_not_used(mirror: Mirror, listing: Path, tmp_path: Path) -> None:
    mirror.files["/maven/org/example/more/two/2.0/two-2.0.jar"] += b" "
    with pytest.raises(ExecutionError, match=r"another two-2\.0\.jar: its SHA-256 is") as refusal:
        fetch_jars(listing)
    assert refusal.value.where == f"{mirror.url}/org/example/more/two/2.0/two-2.0.jar"
    assert _kept(tmp_path) == {"one-1.0.jar", "lock"}


def test_a_download_that_breaks_off_leaves_nothing(mirror: Mirror, listing: Path, tmp_path: Path) -> None:
    mirror.cut = True
    with pytest.raises(ExecutionError, match=r"could not be downloaded|has another one"):
        fetch_jars(listing)
    assert _kept(tmp_path) == {"lock"}
    mirror.cut = False
    assert len(fetch_jars(listing)) == 2


def test_what_the_repository_lacks_is_named_with_what_to_do(mirror: Mirror, listing: Path) -> None:
    mirror.files.clear()
    with pytest.raises(ExecutionError, match=r"one-1\.0\.jar could not be downloaded: HTTP Error 404") as refusal:
        fetch_jars(listing)
    assert refusal.value.hint is not None and "WEFT_MAVEN" in refusal.value.hint


def test_a_certificate_that_nobody_trusts_is_refused(
    mirror: Mirror, listing: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trustme.CA().cert_pem.write_to_path(str(tmp_path / "other.pem"))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "other.pem"))
    with pytest.raises(ExecutionError, match="certificate verify failed"):
        fetch_jars(listing)
    assert not mirror.sent


def test_the_proxy_of_the_environment_is_used(mirror: Mirror, listing: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ExecutionError, match="Connection refused"):
        fetch_jars(listing)
    assert not mirror.sent


def test_without_a_mirror_the_repository_is_maven_central_as_pyspark_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    class NoNetwork:
        def open(self, url: str, timeout: float) -> None:
            asked.append(url)
            raise OSError("not here")

    monkeypatch.setattr("urllib.request.build_opener", NoNetwork)
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path))
    monkeypatch.delenv("WEFT_MAVEN", raising=False)
    with pytest.raises(ExecutionError, match="not here"):
        fetch_jars(S3_JARS)
    assert re.fullmatch(r"https://[\w.]+/maven2/org/apache/hadoop/hadoop-aws/3\.4\.2/hadoop-aws-3\.4\.2\.jar", asked[0])
