"""The commands export and apply, as a person types them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from unit.cli.conftest import Output

HOOK = "webhook:https://hooks.example.com/services/T0/B0/s3cr3t-token#as=slack"


def test_definitions_move_to_another_home_without_their_secrets(
    weft: Callable[..., Output], home: Path, tmp_path: Path
) -> None:
    assert weft("init").code == 0
    weft("table", "create", "t", "id BIGINT")
    weft("install", "q", "SELECT t.id FROM t", "--user", "ann", "--to", HOOK)
    assert weft("export", "out").out == "out: 2 files written, 0 unchanged.\n"
    assert "already" in weft("apply", "out").out
    weft("remove", "q")
    assert weft("export", "out", "--json").json == {
        "written": [],
        "removed": [],
        "left": ["queries/q.sql", "queries/q.toml"],
        "unchanged": 0,
    }
    weft("init", "other")
    weft("table", "create", "t", "id BIGINT", "--home", "other")
    refused = weft("apply", "out", "--home", "other")
    assert refused.code == 2 and "has a variable without a value" in refused.err
    name = (tmp_path / "out" / "queries" / "q.toml").read_text().partition("${")[2].partition("}")[0]
    (tmp_path / "secrets.toml").write_text(f'{name} = "services/T0/B0/s3cr3t-token"\n')
    planned = weft("apply", "out", "--dry-run", "--secrets", "secrets.toml", "--home", "other")
    assert "added" in planned.out and "Nothing was changed." in planned.out and "s3cr3t" not in planned.out
    assert weft("queries", "--json", "--home", "other").json == []
    done = weft("apply", "out", "--secrets", "secrets.toml", "--json", "--home", "other")
    assert [each["change"] for each in done.json] == ["added"]
    assert [each["name"] for each in weft("queries", "--json", "--home", "other").json] == ["q"]
    assert "Not in the home" not in weft("export", "out", "--prune", "--home", "other").out
