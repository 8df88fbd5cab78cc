"""Where a home's data lies."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest

from s3_server import new_bucket
from weft.errors import Refused, StorageError, StoreUnreachable
from weft.store import LocalStore, S3Access, S3Store, Store, free_bytes, local_store, store_of, uri_of


@pytest.mark.parametrize(
    "given", ["/srv/a home/x", "file:///srv/a%20home/x", "file:/srv/a%20home/x/", "/srv/./y/../a home/x/"]
)
def test_a_path_and_its_uri_are_one_place(given: str) -> None:
    place = store_of(given)
    assert place == LocalStore("/srv/a home/x")
    assert (place.uri, place.spark, str(place)) == ("file:///srv/a%20home/x", "file:///srv/a home/x", "/srv/a home/x")


def test_a_step_back_follows_links_and_this_host_may_be_named(tmp_path: Path) -> None:
    (tmp_path / "far/away").mkdir(parents=True)
    (tmp_path / "near").symlink_to(tmp_path / "far/away")
    assert store_of(tmp_path / "near/../x") == store_of(tmp_path / "far/x")
    assert store_of(tmp_path / "near") != store_of(tmp_path / "far/away")
    assert store_of("file://localhost/srv/x") == LocalStore("/srv/x")
    assert (store_of("s3://box/X").path, store_of("s3://box/").path) == ("box/X", "box")
    assert (uri_of("s3:/box/a"), uri_of("gs://box/a"), uri_of(Path("a:b"))) == ("s3://box/a", "gs://box/a", None)


def test_a_relative_path_is_below_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert store_of("home") == store_of(tmp_path) / "home" == store_of(Path("home"))


@pytest.mark.parametrize(
    "given",
    [
        "gs://bucket/home",
        Path("gs://bucket/home"),
        "hdfs://name/home",
        "abfss://box@host/home",
        "file://other/home",
        "s3:///home",
        "s3://B/home",
        "s3://bucket/home?x=1",
    ],
)
def test_another_scheme_is_refused_aloud(given: str | Path) -> None:
    with pytest.raises(Refused) as caught:
        store_of(given)
    assert str(given).replace("gs:/b", "gs://b") in caught.value.message
    assert "needs a local folder or an S3 bucket" in caught.value.message
    assert "file:///" in str(caught.value.hint)


@pytest.mark.parametrize("given", ["/srv/a%20b", "/srv/[x]", "a*", "/srv/a\\b", "file:///srv/a%2520b", "/srv/a\nb"])
def test_a_path_that_spark_or_delta_would_misread_is_refused(given: str) -> None:
    with pytest.raises(Refused, match="would misread"):
        store_of(given)
    assert store_of("/srv/100% of it+&=#").path == "/srv/100% of it+&=#"


def test_a_bucket_has_a_spelling_for_each_client(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for given in ("s3://bucket/a/b/", Path("s3://bucket/a/b")):
        place = store_of(given) / "c"
        assert (place.path, place.uri, place.spark) == ("bucket/a/b/c", "s3://bucket/a/b/c", "s3a://bucket/a/b/c")
        assert place.options == {"aws_conditional_put": "etag", "aws_region": "us-east-1"}
    place = store_of("s3://bucket/a", S3Access("http://127.0.0.1:9", "eu-west-1", "key", "much-secret", "short-lived"))
    assert isinstance(place, S3Store) and place.bucket == "bucket"
    assert place.options == {
        "aws_conditional_put": "etag",
        "aws_region": "eu-west-1",
        "aws_endpoint_url": "http://127.0.0.1:9",
        "aws_allow_http": "true",
        "aws_access_key_id": "key",
        "aws_secret_access_key": "much-secret",
        "aws_session_token": "short-lived",
    }
    assert place.access.spark_settings(place.bucket) == {
        f"fs.s3a.bucket.bucket.{name}": value
        for name, value in {
            "endpoint": "http://127.0.0.1:9",
            "endpoint.region": "eu-west-1",
            "path.style.access": "true",
            "connection.ssl.enabled": "false",
            "connection.establish.timeout": "5s",
            "attempts.maximum": "3",
            "aws.credentials.provider": "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider",
            "access.key": "key",
            "secret.key": "much-secret",
            "session.token": "short-lived",
        }.items()
    }
    assert "much-secret" not in f"{place!r} {place} {place.access!r}"
    with pytest.raises(Refused, match="not a local folder"):
        local_store("s3://bucket")


def test_places_join_and_part(tmp_path: Path) -> None:
    home = store_of(tmp_path)
    table = home / "tables/1-msgs"
    assert (table.name, table.parent, table.parent.parent) == ("1-msgs", home / "tables", home)
    assert str(store_of("/") / "x") == "/x"


@pytest.mark.parametrize("below", ["/etc/passwd", "../x", "a/../../x", "a//b", ".", ""])
def test_nothing_leads_out_of_a_home(below: str) -> None:
    with pytest.raises(StorageError, match="not a path below"):
        store_of("/srv/home") / below


def test_files_are_read_whole_or_at_their_ends(store: Store) -> None:
    file = store / "f"
    file.put(b"PAR1middlePAR2")
    assert (file.read(), file.ends(4), file.size(), file.exists()) == (b"PAR1middlePAR2", (b"PAR1", b"PAR2"), 14, True)
    with pytest.raises(OSError, match="Invalid argument"):
        file.ends(15)
    none = file.parent / "none"
    for ask in (none.read, none.size, none.modified_ms, none.remove):
        with pytest.raises(FileNotFoundError):
            ask()
    assert none.mark() is None


def test_a_folder_is_listed_and_none_is_empty(store: Store) -> None:
    place = store / "x"
    (place / "f").put(b"")
    (place / "d/g").put(b"")
    assert sorted(place.names()) == ["d", "f"]
    assert (place / "none").names() == (place / "f").names() == []
    assert not (place / "none").exists()


def test_files_are_removed_and_a_folder_cleared(store: Store) -> None:
    place = store / "x"
    for name in ("d/f", "g", "h", "i"):
        (place / name).put(b"one")
    marks = [(place / "d/f").mark()]
    place.remove_all(["i", "none", "h"])
    assert sorted(place.names()) == ["d", "g"]
    (place / "d").clear()
    (place / "none").clear()
    assert place.names() == ["g"]
    (place / "g").remove()
    assert not (place / "g").exists()
    (place / "d/f").put(b"two!")
    assert (place / "d/f").mark() not in marks


def test_a_bucket_that_is_gone_is_no_empty_place(s3_access: S3Access) -> None:
    bucket = new_bucket(s3_access)
    place = bucket / "x"
    (place / "f").put(b"one")
    assert ((place / "g").mark(), (place / "g").exists(), (bucket / "y").names()) == (None, False, [])
    place = store_of("s3://weft-gone/x", s3_access)
    file = place / "g"
    for ask in (file.mark, file.read_marked, file.exists, file.read, file.size, file.remove, place.names):
        with pytest.raises(StoreUnreachable, match="does not exist"):
            ask()


def test_keys_for_spark_are_optional_and_a_connection_is_secure() -> None:
    def settings(access: S3Access) -> dict[str, str]:
        return {name.removeprefix("fs.s3a.bucket.b."): value for name, value in access.spark_settings("b").items()}

    own = {"endpoint.region": "us-east-1", "attempts.maximum": "3", "connection.establish.timeout": "5s"}
    assert settings(S3Access()) == settings(S3Access(key="key")) == settings(S3Access(token="t")) == own
    found = settings(S3Access("https://there", key="key", secret="s"))
    assert (found["connection.ssl.enabled"], "session.token" in found) == ("true", False)
    assert found["aws.credentials.provider"] == "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider"
    assert S3Access("https://there").delta_options["aws_allow_http"] == "false"
    assert "aws_access_key_id" not in S3Access(key="key").delta_options


@pytest.mark.parametrize(
    ("text", "kind", "said"),
    [
        ("AWS Error ACCESS_DENIED during HeadObject", StorageError, "the object store refuses the access: http://s"),
        ("AWS Error INVALID_ACCESS_KEY_ID during it", StorageError, "the object store refuses the access: http://s"),
        ("AWS Error NO_SUCH_BUCKET during GetObject", StoreUnreachable, "the bucket box does not exist at http://s"),
        ("AWS Error NETWORK_CONNECTION: curlCode: 7", StoreUnreachable, "the object store cannot be reached: http://s"),
        ("Generic S3 error: status 503 Busy", StoreUnreachable, "the object store cannot be reached: http://s"),
        (
            "AWS Error UNKNOWN (HTTP status 400): No response body. (Request ID: 42) at it",
            StoreUnreachable,
            "the object store failed: AWS Error UNKNOWN (HTTP status 400): at it",
        ),
    ],
)
def test_a_fault_of_the_server_is_distinguished_from_other_errors(
    text: str, kind: type[StorageError], said: str
) -> None:
    place = store_of("s3://box/home", S3Access("http://s"))
    result = place.failure(OSError(text))
    assert result is not None and type(result) is kind
    assert (result.message, result.where) == (said, "s3://box/home") and result.hint
    assert place.failure(OSError(text.replace("AWS Error", "x").replace("Generic S3 error", "x"))) is None
    assert store_of("/srv").failure(OSError(text)) is None
    without = store_of("s3://box").failure(OSError("AWS Error NETWORK_CONNECTION"))
    assert without is not None and without.message == "the object store cannot be reached: AWS (us-east-1)"


def test_an_object_that_vanishes_between_two_requests_of_a_read_is_missing(
    s3_access: S3Access, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = new_bucket(s3_access) / "a"
    place.put(b"x")
    filesystem = place.filesystem

    class Removing:
        """Opens the object, and removes it before its bytes are asked for."""

        def open_input_stream(self, path: str) -> object:
            stream = filesystem.open_input_stream(path)
            filesystem.delete_file(path)
            return stream

        def get_file_info(self, path: str) -> object:
            return filesystem.get_file_info(path)

    monkeypatch.setattr(S3Store, "filesystem", Removing())
    with pytest.raises(FileNotFoundError):
        place.read()


def test_a_file_is_put_once_whole_and_with_its_folder(store: Store) -> None:
    file = store / "quarantine/abc"
    file.put(b"one")
    file.put(b"two")
    assert file.read() == b"one"
    assert file.parent.names() == ["abc"]


def test_the_known_figures_of_a_file_agree(store: Store) -> None:
    file, before = store / "f", time.time()
    file.put(b"one")
    mark = file.mark()
    assert mark is not None and file.read_marked() == (b"one", mark)
    assert file.stat() == (3, file.modified_ms())
    assert before - 2 < file.modified_ms() / 1_000 < time.time() + 2
    assert (store / "none").read_marked() is None
    with pytest.raises(FileNotFoundError):
        (store / "none").stat()


def test_the_free_bytes_are_those_of_the_disk(store: Store) -> None:
    free = (store / "not/there").free_bytes()
    if not isinstance(store, LocalStore):
        assert free is None
        return
    free_now, total = free_bytes(store.path)
    disk = shutil.disk_usage(store.path)
    assert (total, free is not None) == (disk.total, True)
    assert abs(free_now - disk.free) < 1 << 30 and abs((free or 0) - disk.free) < 1 << 30


def test_a_store_is_required_to_take_and_to_give(s3_access: S3Access, monkeypatch: pytest.MonkeyPatch) -> None:
    bucket = new_bucket(s3_access)
    bucket.require()
    assert bucket.names() == []
    (bucket / "home").require()
    assert (bucket / "home").names() == []
    with monkeypatch.context() as patch:
        patch.setattr(S3Store, "read", lambda self: b"other")
        with pytest.raises(StorageError, match="gives other bytes than it received"):
            bucket.require()


def test_a_put_that_fails_leaves_no_file_of_that_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    file = store_of(tmp_path) / "abc"
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space"):
            file.put(b"one")
    assert not file.exists()
    file.put(b"one")
    assert file.read() == b"one"


def test_one_is_alone_only_where_nobody_shares(tmp_path: Path) -> None:
    place = store_of(tmp_path)
    with place.shared(), place.shared(), place.alone(0.0) as alone:
        assert not alone
    with place.alone(0.0) as alone:
        assert alone
        with place.alone(0.0) as second:
            assert not second
    with place.shared():
        pass


def test_who_is_alone_may_fail(tmp_path: Path) -> None:
    place = store_of(tmp_path)
    with pytest.raises(BlockingIOError, match="of the block"), place.alone(0.0):
        raise BlockingIOError("of the block")
    with place.alone(0.0) as alone:
        assert alone
