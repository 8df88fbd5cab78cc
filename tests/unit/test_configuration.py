"""Settings of the environment and of a home's file: defaults, what goes over what, what is refused and how."""

from __future__ import annotations

import base64
import json
import os
import re
import zipfile
from pathlib import Path

import pytest

from weft.api import Weft
from weft.cli import main
from weft.configuration import configuration, settings_of
from weft.configuration.spark_names import ADJUSTABLE, suggestion_for, why_refused
from weft.configuration.toml_file import add_key
from weft.delivery.mail.channel import server_of
from weft.errors import Refused
from weft.runtime.doctor import examine
from weft.runtime.settings import jvm_memory, local_master, settings


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("WEFT_")]:
        monkeypatch.delenv(name)


def test_unset_and_empty_variables_have_their_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_QUERY_SECONDS", "")
    found = configuration()
    assert (found.home, found.files_root, found.spark_memory) == (Path("weft-home"), None, None)
    assert (found.query_seconds, found.query_rows) == (600, 10_000_000)


def test_variables_are_read_when_they_are_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_QUERY_SECONDS", "2.5")
    monkeypatch.setenv("WEFT_QUERY_ROWS", "100")
    monkeypatch.setenv("WEFT_SPARK_MEMORY", "512m")
    found = configuration()
    assert (found.query_seconds, found.query_rows, found.spark_memory) == (2.5, 100, "512m")


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("WEFT_QUERY_SECONDS", "5 minutes", "number"),
        ("WEFT_QUERY_SECONDS", "0", "greater"),
        ("WEFT_QUERY_SECONDS", "nan", "number"),
        ("WEFT_QUERY_SECONDS", "inf", "finite"),
        ("WEFT_QUERY_ROWS", "1e6", "it should be a whole number, such as 5"),
        ("WEFT_QUERY_ROWS", "-1", "greater"),
        ("WEFT_SPARK_MEMORY", "much", "with a unit"),
    ],
)
def test_a_value_that_cannot_be_is_refused_by_its_name(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, reason: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(Refused) as refused:
        configuration()
    assert refused.value.message.startswith(f"{name} is {value!r}: ")
    assert reason in refused.value.message
    assert "unset the variable" in (refused.value.hint or "")


@pytest.mark.parametrize("options", [[], ["--home", "somewhere"]])
def test_a_command_says_which_variable_is_wrong(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], options: list[str]
) -> None:
    monkeypatch.setenv("WEFT_QUERY_ROWS", "many")
    monkeypatch.setattr("sys.argv", ["weft", "queries", *options])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert "refused: WEFT_QUERY_ROWS is 'many'" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["queries", "try", "tick", "doctor", "prepare", "init", "demo"])
def test_every_command_names_the_variable_that_has_a_bad_memory(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, command: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WEFT_SPARK_MEMORY", "banana")
    monkeypatch.setattr("sys.argv", ["weft", command, *(["SELECT 1"] if command == "try" else [])])
    with pytest.raises(SystemExit) as ended:
        main()
    expected = capsys.readouterr().err
    assert ended.value.code == 2
    assert "refused: WEFT_SPARK_MEMORY is 'banana': it should be a number with a unit, such as 512m" in expected


def test_a_variable_that_is_misspelt_is_refused_with_the_one_that_was_meant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_SOMETHING_ELSE", "5")
    configuration()
    monkeypatch.setenv("WEFT_QUERY_SECOND", "5")
    with pytest.raises(Refused, match=r"WEFT_QUERY_SECOND is not a setting: did you mean WEFT_QUERY_SECONDS\?"):
        configuration()
    check = next(each for each in examine(None, 0) if each.name == "settings")
    assert not check.ok
    assert "did you mean WEFT_QUERY_SECONDS?" in str(check)


def _written(home: Path, text: str) -> Path:
    (home / "weft.toml").write_text(text, encoding="utf-8")
    return home


WHOLE = """
[spark]
master = "local[3]"
memory = "2g"
"spark.sql.shuffle.partitions" = 8
ui.enabled = true

[limits]
seconds = 5
rows = 7

[files]
root = "answers"

[smtp]
host = "mail.example.com"
tls = "implicit"
password = "open sesame"
from = "weft@example.com"

[install]
every = "1h"
to = ["file:a.csv"]
user = "ann"
from = "now"

[users.ann]
zone = "Europe/Paris"
[users."bo peep"]
email = "bo@example.com"
"""


def test_a_homes_file_is_read_and_variables_go_over_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = _written(tmp_path, WHOLE)
    monkeypatch.setenv("WEFT_QUERY_ROWS", "9")
    found = configuration(home)
    assert found.spark == {"spark.sql.shuffle.partitions": "8", "spark.ui.enabled": "true"}
    assert (found.spark_master, found.spark_memory, found.query_seconds, found.query_rows) == ("local[3]", "2g", 5, 9)
    assert (found.files_root, found.mail_port) == (home / "answers", 465)
    assert (found.install_every, found.install_to, found.install_user, found.install_from) == (
        *("1h", ("file:a.csv",), "ann"),
        "now",
    )
    assert (found.users["ann"].zone, found.users["bo peep"].email) == ("Europe/Paris", "bo@example.com")
    assert configuration().query_seconds == 600
    assert configuration(tmp_path / "another").query_rows == 9


def test_each_setting_is_shown_with_its_origin_and_without_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = _written(tmp_path, WHOLE)
    monkeypatch.setenv("WEFT_QUERY_ROWS", "9")
    found = {each.key: each for each in settings_of(home)}
    assert (found["limits.rows"].value, found["limits.rows"].origin) == (9, "WEFT_QUERY_ROWS")
    assert repr(found["limits.rows"]) == "<limits.rows = 9, WEFT_QUERY_ROWS>"
    assert found["limits.seconds"].origin == f"{home / 'weft.toml'}, line 9"
    assert (found["smtp.timeout"].value, found["smtp.timeout"].origin) == (30, "default")
    assert found["spark.ui.enabled"].origin == f"{home / 'weft.toml'}, line 6"
    assert found["users.ann.zone"].origin == f"{home / 'weft.toml'}, line 28"
    assert found["users.bo peep.email"].value == "bo@example.com"
    assert "sesame" not in str(found)
    assert found["smtp.password"].value == "(hidden)"


def _secret(length: int) -> str:
    return f"whsec_{base64.b64encode(bytes(length)).decode()}"


@pytest.mark.parametrize(
    ("text", "message", "line"),
    [
        ("[limits]\nsecnds = 5", "limits.secnds is not a setting: did you mean limits.seconds?", 2),
        ("[limits]\nrows = 'many'", "limits.rows is 'many': it should be a whole number, such as 5", 2),
        ("[limits]\nrows = true", "limits.rows is True: it should be a number", 2),
        ("[limit]\nrows = 5", "limit.rows is not a setting: did you mean limits.rows?", 2),
        ("host = 'x'", "host is not a setting: did you mean smtp.host?", 1),
        ("files_root = 'x'", "files_root is not a setting: did you mean files.root?", 1),
        ("[smtp]\n\ntls = 'startls'", "did you mean starttls?", 3),
        ("smtp = {host = 'x', prt = 5}", "smtp.prt is not a setting: did you mean smtp.port?", 1),
        ("[smtp]\npassword = 5", "smtp.password is invalid: it should be a string in quotes", 2),
        ("[smtp]\nfrom = 'Weft'", "smtp.from is 'Weft': it is not an address", 2),
        ("[spark]\nmemroy = '2g'", "spark.memroy is not a setting of Weft or Spark: did you mean spark.memory?", 2),
        ("[spark]\nmemory = 'banana'", "spark.memory is 'banana'", 2),
        ("[spark]\n'spark.sql.session.timeZone' = 'CET'", "spark.sql.session.timeZone cannot be set", 2),
        ("[spark]\nsql.ansi.enabled = true", "spark.sql.ansi.enabled cannot be set", 2),
        ("[spark]\nsql.EXTENSIONS = 'a.b'", "spark.sql.EXTENSIONS cannot be set", 2),
        ("'spark.sql.legacy.timeParserPolicy' = 'LEGACY'", "Weft's own evaluation depends on this setting", 1),
        ("[spark]\n'spark.jars.packages' = ['a']", "spark.jars.packages cannot be set", 2),
        ("[spark]\n'spark.executor.cores' = [1]", "spark.executor.cores is [1]: it should be a string", 2),
        (
            "[users.ann]\nzone = 'Europe/Pari'",
            "users.ann.zone is 'Europe/Pari': it is not a time zone: did you mean",
            2,
        ),
        ("[users.ann]\nzon = 'CET'", "users.ann.zon is not a setting: did you mean users.ann.zone?", 2),
        ("[install]\nevery = 'often'", "install.every is 'often'", 2),
        ("[install]\nto = ['a', 5]", "install.to is 5", 2),
        ("[install]\nto = {a = 1}", "install.to.a is not a setting: did you mean install.to?", 2),
        ("[install]\nto = 7", 'install.to is 7: it should be a list of strings, such as ["a", "b"]', 2),
        ("[install]\nuser = ''", "install.user is '': it should not be empty", 2),
        ("[limits]\nrows = 1.5", "limits.rows is 1.5: it should be a whole number", 2),
        ("[webhook]\nprivate = 'maybe'", "webhook.private is 'maybe': it should be true or false", 2),
        ("[webhook]\nsecret = 'abc'", "webhook.secret is invalid: it should be whsec_ followed by the base64", 2),
        (f"[webhook]\nsecret = '{_secret(24)[6:]}'", "webhook.secret is invalid", 2),
        (f"[webhook]\nsecret = '{_secret(24)}!'", "webhook.secret is invalid", 2),
        (f"[webhook]\nsecret = '{_secret(23)}'", "base64 of 24 to 64 bytes", 2),
        (f"[webhook]\nsecret = '{_secret(65)}'", "base64 of 24 to 64 bytes", 2),
        ("[spark]\n'spark.sql.shufle.partitions' = 8", "did you mean spark.sql.shuffle.partitions?", 2),
        ("[spark]\nsql.Shuffle.partitions = 8", "did you mean spark.sql.shuffle.partitions?", 2),
        ("[spark]\n'spark.sql.ansi.enabeld' = true", "spark.sql.ansi.enabeld cannot be set", 2),
        ("[spark]\n'spark.executor.memroy' = '1g'", "did you mean spark.executor.memory?", 2),
        ("[spark]\n'shuffle.partitions' = 8", "did you mean 'spark.sql.shuffle.partitions'?", 2),
        (
            "[spark]\n'my.own' = 8",
            "'my.own' is not a Spark setting, because the names of Spark settings begin with spark.",
            2,
        ),
        ("[spark]\n'spark.sql.shuffle.partitions' = 'lots'", "it should be an integer from 1 on", 2),
        ("[spark]\n'spark.sql.shuffle.partitions' = 0", "it should be an integer from 1 on", 2),
        ("[spark]\n'spark.ui.enabled' = 'maybe'", "it should be true or false", 2),
        ("[smtp]\npassword = 'x'\npassword_env = 'Y'", "by smtp.password and by smtp.password_env", 3),
        ("[smtp]\npassword_file = 'x'\npassword_env = 'Y'", "the password is set twice", 2),
        ("cache = '/var/cache'", "cache cannot be set in a home's file", 1),
        ("[smtpp]", "smtpp is not a setting", 1),
        ("a = [\n  1\n]\n[limits]\nrows = 0", "a is not a setting", 1),
    ],
)
def test_a_key_or_value_of_the_file_that_cannot_be_is_refused_with_its_line(
    tmp_path: Path, text: str, message: str, line: int
) -> None:
    with pytest.raises(Refused) as refused:
        configuration(_written(tmp_path, text))
    assert message in refused.value.message
    assert refused.value.where == f"{tmp_path / 'weft.toml'}, line {line}"
    assert "abc" not in str(refused.value) and "AAAA" not in str(refused.value)


def test_one_text_is_a_list_of_one(tmp_path: Path) -> None:
    found = configuration(_written(tmp_path, "[install]\nto = 'file:x.csv'\n[exec]\ncommands = 'notify --room ops'"))
    assert (found.install_to, found.exec_commands) == (("file:x.csv",), ("notify --room ops",))


@pytest.mark.parametrize("length", [24, 32, 64])
def test_a_secret_of_standard_webhooks_is_taken(tmp_path: Path, length: int) -> None:
    assert configuration(_written(tmp_path, f"[webhook]\nsecret = '{_secret(length)}'")).webhook_secret


def test_a_variable_goes_over_the_password_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = _written(tmp_path, "[smtp]\npassword_env = 'MINE'")
    monkeypatch.setenv("WEFT_SMTP_PASSWORD", "x")
    assert configuration(home).smtp_password == "x"
    monkeypatch.setenv("WEFT_SMTP_PASSWORD_FILE", "y")
    with pytest.raises(Refused, match="by WEFT_SMTP_PASSWORD and by WEFT_SMTP_PASSWORD_FILE"):
        configuration(home)


@pytest.mark.parametrize("in_file", ["password = 'theirs'", "password_env = 'MINE'", "password_file = 'theirs'"])
def test_a_variable_goes_over_a_password_that_is_given_in_another_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_file: str
) -> None:
    home = _written(tmp_path, f"[smtp]\nhost = 'h'\nfrom = 'a@example.com'\nuser = 'u'\n{in_file}")
    (tmp_path / "mine").write_text("right\n")
    (home / "theirs").write_text("wrong\n")
    monkeypatch.setenv("MINE", "wrong")
    monkeypatch.setenv("WEFT_SMTP_PASSWORD_FILE", str(tmp_path / "mine"))
    assert server_of(configuration(home)).password == "right"
    given = {each.key for each in settings_of(home) if each.key.startswith("smtp.password") and each.value is not None}
    assert given == {"smtp.password_file"}


def test_a_secret_setting_of_spark_is_not_shown(tmp_path: Path) -> None:
    keys = ("spark.authenticate.secret", "spark.ssl.keyStorePassword", "spark.hadoop.fs.s3a.session.token")
    home = _written(tmp_path, "".join(f"'{key}' = 'open sesame'\n" for key in keys))
    assert {each.value for each in settings_of(home) if each.key in keys} == {"(hidden)"}
    assert set(configuration(home).spark.values()) == {"open sesame"}
    with pytest.raises(Refused) as refusal:
        configuration(_written(tmp_path, "'spark.authenticate.secret' = ['open sesame']"))
    assert "sesame" not in str(refusal.value)


def test_settings_of_spark_of_two_words_are_taken(tmp_path: Path) -> None:
    names = (
        "spark.files",
        "spark.speculation",
        "spark.logConf",
        "spark.authenticate",
        "spark.archives",
        "spark.plugins",
    )
    home = _written(tmp_path, "".join(f"'{name}' = 'true'\n" for name in names))
    assert set(configuration(home).spark) == set(names)
    assert {suggestion_for(name) for name in ("spark.memroy", "spark.mem", "spark.Memory")} == {"spark.memory"}
    assert {suggestion_for(name) for name in ("spark.mastr", "spark.Master")} == {"spark.master"}


def test_no_setting_that_spark_has_is_taken_for_a_misspelt_one() -> None:
    """By the names that stand in Spark's own classes."""
    import pyspark

    found = set()
    for jar in (Path(pyspark.__file__).parent / "jars").glob("spark-*.jar"):
        with zipfile.ZipFile(jar) as opened:
            for name in opened.namelist():
                if re.search(r"(SQLConf|StaticSQLConf|internal/config/[A-Za-z]+)\$\.class$", name):
                    found |= set(re.findall(rb"spark\.(?:[A-Za-z]+\.)+[A-Za-z]+", opened.read(name)))
    names = {each.decode() for each in found}
    assert len(names) > 1000
    assert {name: near for name in names if why_refused(name) is None and (near := suggestion_for(name))} == {}


def test_a_file_that_is_no_toml_is_refused_with_the_place(tmp_path: Path) -> None:
    with pytest.raises(Refused, match=r"the settings are not valid TOML: .*line 2"):
        configuration(_written(tmp_path, "[smtp]\nhost = mail.example.com"))
    (tmp_path / "weft.toml").write_bytes(b"\xff\xfea")
    with pytest.raises(Refused, match="not UTF-8"):
        configuration(tmp_path)


def test_the_doctor_reports_a_password_that_others_can_read(tmp_path: Path) -> None:
    home = _written(tmp_path, "[smtp]\npassword = 'x'")
    for mode, well in ((0o644, False), (0o600, True)):
        (home / "weft.toml").chmod(mode)
        check = next(each for each in examine(home, 0) if each.name == "settings")
        assert check.ok is well
        assert well or "chmod 600" in str(check)


def test_what_weft_starts_spark_with_is_refused_or_changes_no_answer(tmp_path: Path) -> None:
    own = settings("local[2]", configuration())
    assert {name for name in own if why_refused(name) is None} == set(ADJUSTABLE)
    home = _written(tmp_path, "[spark]\n'spark.sql.shuffle.partitions' = 3\nmemory = '700m'")
    theirs = settings("local[2]", configuration(home))
    assert theirs == {**own, "spark.sql.shuffle.partitions": "3", "spark.driver.memory": "700m"}


def _weft(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[str, str]:
    monkeypatch.setattr("sys.argv", ["weft", *words])
    with pytest.raises(SystemExit):
        main()
    expected = capsys.readouterr()
    return expected.out, expected.err


def test_weft_config_shows_what_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    home = str(_written(tmp_path, WHOLE))
    out, _ = _weft(monkeypatch, capsys, "config", "--home", home, "--json")
    expected = {each["setting"]: each for each in json.loads(out)}
    assert expected["limits.rows"] == {
        "setting": "limits.rows",
        "value": 7,
        "from": f"{home}/weft.toml, line 10",
        "variable": "WEFT_QUERY_ROWS",
    }
    assert (expected["spark.memory"]["value"], expected["spark.memory"]["from"]) == ("2g", f"{home}/weft.toml, line 4")
    monkeypatch.setenv("COLUMNS", "400")
    out, _ = _weft(monkeypatch, capsys, "config", "--home", home)
    assert "sesame" not in out
    assert "weft.toml, line 9" in out
    _written(tmp_path, "[limits]\nrws = 1")
    _, err = _weft(monkeypatch, capsys, "queries", "--home", home)
    assert "refused: limits.rws is not a setting: did you mean limits.rows?" in " ".join(err.split())


def test_weft_config_shows_the_computed_value_where_none_is_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out, _ = _weft(monkeypatch, capsys, "config", "--home", str(tmp_path / "home"), "--json")
    expected = {each["setting"]: each["value"] for each in json.loads(out) if each["from"] == "default, computed"}
    keys = {"catalog.url", "spark.master", "spark.memory", "cache", "files.root", "delta.root", "smtp.port"}
    assert expected.keys() == keys and None not in expected.values()
    assert (expected["spark.memory"], expected["spark.master"]) == (jvm_memory(configuration()), local_master())
    assert (expected["smtp.port"], expected["files.root"]) == (587, f"{tmp_path}/home/files")


def test_install_takes_missing_options_from_the_settings(tmp_path: Path) -> None:
    with Weft.open(tmp_path / "home", wall=lambda: 10_000_000, create=True) as weft:
        weft.ingest_file(_rows(tmp_path), "t")
        _written(weft.home, "[install]\nevery = '1h'\nto = ['file:a.csv']\nuser = 'ann'\nfrom = 'now'")
        query = weft.install("all", "SELECT a FROM t")
        expected = weft.show("all").subscriptions
        assert (query.every_us, query.user, query.from_mode) == (3_600_000_000, "ann", "now")
        assert [each.channel for each in expected] == ["file:a.csv"]
        own = weft.install("own", "SELECT a FROM t", every="2h", to=["cursor"], user="bo", start="start")
        assert (own.every_us, own.user, own.from_mode) == (7_200_000_000, "bo", "start")
        assert weft.show("own").subscriptions == ()
        _written(weft.home, "[install]\nto = ['emial:ann@example.com']")
        with pytest.raises(Refused, match=r"did you mean email:…\?") as refused:
            weft.install("more", "SELECT a FROM t")
        assert refused.value.where == f"install.to of {weft.home / 'weft.toml'}"


@pytest.mark.parametrize(
    ("to", "reason"),
    [("fiel:x.jsonl", "'fiel:x.jsonl' is not a channel: did you mean file:…?"), ("file:../../x.csv", "../../x.csv")],
)
def test_an_invalid_channel_in_the_settings_is_reported_before_an_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], to: str, reason: str
) -> None:
    home = _written(tmp_path, f"[install]\nto = ['file:x.csv', '{to}']")
    monkeypatch.setenv("COLUMNS", "400")
    assert reason in " ".join(_weft(monkeypatch, capsys, "config", "--home", str(home))[1].split())
    expected = _weft(monkeypatch, capsys, "doctor", "--home", str(home), "--json")[0]
    check = next(each for each in json.loads(expected) if each["name"] == "settings")
    assert not check["ok"]
    assert reason in check["seen"] and "install.to of" in check["seen"]


def _rows(folder: Path) -> Path:
    file = folder / "t.csv"
    file.write_text("a\n1\n")
    return file


def test_a_key_is_added_before_all_sections_and_the_file_keeps_its_mode(tmp_path: Path) -> None:
    file = tmp_path / "weft.toml"
    file.write_text("# mine\n[limits]\nrows = 7\n")
    file.chmod(0o640)
    add_key(file, "catalog.url", "postgresql://ann@db/weft")
    assert file.read_text() == 'catalog.url = "postgresql://ann@db/weft"\n\n# mine\n[limits]\nrows = 7\n'
    assert file.stat().st_mode & 0o777 == 0o640 and list(tmp_path.iterdir()) == [file]
    file.write_text("# mine\n[catalog]\n[limits]\nrows = 7\n")
    add_key(file, "catalog.url", "postgresql://ann@db/weft")
    assert file.read_text() == '# mine\n[catalog]\nurl = "postgresql://ann@db/weft"\n[limits]\nrows = 7\n'
    file.write_text("catalog = {}\n")
    with pytest.raises(Refused, match=r"catalog\.url cannot be added") as refused:
        add_key(file, "catalog.url", "postgresql://ann@db/weft")
    assert 'below [catalog]: url = "postgresql://ann@db/weft"' in (refused.value.hint or "")
    assert file.read_text() == "catalog = {}\n"
