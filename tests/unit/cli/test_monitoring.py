"""weft monitor: what it prints, its options, its cases, and how it ends."""

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from weft.cli.app import run

SIGNATURE = "P(x: int) Q(x: int, y: string) F(float)"
LOG = '@1 P(1) (2)\n@2 P(3) Q(3, "a b") @2\n@5 Q(1, c) F(2.5)\n'


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "s.sig").write_text(SIGNATURE)
    (tmp_path / "l.log").write_text(LOG)
    return tmp_path


def monitored(files: Path, formula: str, *options: str) -> int:
    (files / "f.mfotl").write_text(formula)
    triple = ("--sig", f"{files}/s.sig", "--formula", f"{files}/f.mfotl", "--log", f"{files}/l.log")
    return run(["monitor", *triple, *options])


@pytest.mark.parametrize(
    ("formula", "options", "printed"),
    [
        (
            "ONCE P(x)",
            (),
            [
                "@1 (time point 0): (1) (2)",
                *(f"@{at} (time point {tp}): (1) (2) (3)" for at, tp in ((2, 1), (2, 2), (5, 3))),
            ],
        ),
        ("(ONCE[1,4] P(x)) AND Q(x, y)", (), ['@5 (time point 3): (1,"c")']),
        ("P(x)", ("--every-time-point",), ["@1 (time point 0): ((1),(2))", "@2 (time point 1): ((3))"]),
        (
            "EXISTS x. P(x)",
            ("--every-time-point", "--empty-time-points"),
            [
                f"@{at} (time point {tp}): {told}"
                for at, tp, told in ((1, 0, "true"), (2, 1, "true"), (2, 2, "false"), (5, 3, "false"))
            ],
        ),
        ("EXISTS x. P(x)", ("--negate",), ["@2 (time point 2): true", "@5 (time point 3): true"]),
        (
            "m <- AVG x P(x)",
            (),
            ["@1 (time point 0): (1.5)", "@2 (time point 1): (3)", "@2 (time point 2): (0)", "@5 (time point 3): (0)"],
        ),
        ("F(x)", (), ["@5 (time point 3): (2.5)"]),
    ],
)
def test_verdicts_are_printed_as_monpoly_does(
    files: Path, capsys: pytest.CaptureFixture[str], formula: str, options: tuple[str, ...], printed: list[str]
) -> None:
    assert monitored(files, formula, *options) == 0
    assert capsys.readouterr().out.splitlines() == printed


def test_json_is_an_object_a_line(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert monitored(files, "F(x)", "--json") == 0
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == [
        {"verdict": "@5 (time point 3): (2.5)"}
    ]


@pytest.mark.parametrize(
    ("formula", "told"),
    [
        ("NEXT P(x)", "NEXT looks into the future"),
        ("P(x) AND\n  W(x)", "line 2, column 3"),
        ("P(x) OR Q(x, y)", "the formula cannot be monitored"),
    ],
)
def test_a_formula_that_is_refused_names_its_file_and_place(
    files: Path, capsys: pytest.CaptureFixture[str], formula: str, told: str
) -> None:
    assert monitored(files, formula) == 2
    shown = capsys.readouterr().err
    assert told in shown and "f.mfotl" in shown


def test_a_log_that_is_refused_names_its_line(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (files / "l.log").write_text("@1 P(1)\n@2 P(x)\n")
    assert monitored(files, "P(x)") == 2
    found = capsys.readouterr()
    assert "(x) is not a row of P" in found.err and "line 2" in found.err


def test_properties_of_dejavu_name_the_events_that_violate_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "p.qtl").write_text("prop once : Forall x . close(x) -> @ [open(x), close(x))")
    (tmp_path / "l.csv").write_text("open,a\nclose,a\nclose,a\nclose,b\n")
    assert run(["monitor", "--formula", f"{tmp_path}/p.qtl", "--log", f"{tmp_path}/l.csv"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"*** Property once violated on event number {number}" for number in (3, 4)
    ]


def test_cases_are_told_where_they_differ(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "monpoly"
    folder.mkdir()
    (folder / "s.sig").write_text(SIGNATURE)
    (folder / "l.log").write_text(LOG)
    (folder / "p.qtl").write_text("prop p : Forall x . a(x) -> b(x)")
    (folder / "l.csv").write_text("a,1\nb,1\n")
    given = {"sig": "monpoly/s.sig", "log": "monpoly/l.log", "past_only": True, "monitorable": True}
    right = [{"ts": "5", "tp": 3, "result": "(2.5)"}]
    cases = [
        {"id": "same", "formula": "F(x)", **given, "verdicts": right},
        {"id": "wrong", "formula": "F(x)", **given, "verdicts": [{"ts": "5", "tp": 3, "result": "(3)"}]},
        {"id": "more", "formula": "F(x)", **given, "verdicts": []},
        {"id": "refused", "formula": "NOT F(x)", **given, "monitorable": False, "verdicts": []},
        {"id": "accepted", "formula": "F(x)", **given, "monitorable": False, "verdicts": right},
        {"id": "dejavu", "spec": "monpoly/p.qtl", "log": "monpoly/l.csv", "violations": [1]},
    ]
    (folder / "cases.jsonl").write_text("".join(json.dumps(case) + "\n" for case in cases))
    assert run(["monitor", "--cases", f"{folder}/cases.jsonl"]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "wrong: @5 (time point 3): (2.5) instead of @5 (time point 3): (3)",
        "more: @5 (time point 3): (2.5), and nothing more was expected",
        "accepted: a refusal was expected, and the formula was answered",
        "6 cases: 2 with the expected verdicts, 1 refused as expected, 3 with another outcome",
    ]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--formula", "f.mfotl"), "a formula and a log are required"),
        (("--formula", "f.mfotl", "--log", "l"), "a signature is required"),
        (("--formula", "f.qtl", "--log", "l", "--negate"), "allows no other option than --log"),
        (("--cases", "c", "--log", "l"), "--cases cannot be combined"),
        (("--cases", "not-there.jsonl"), "the file does not exist"),
    ],
)
def test_what_is_asked_wrongly_is_refused(
    capsys: pytest.CaptureFixture[str], options: tuple[str, ...], told: str
) -> None:
    assert run(["monitor", *options]) == 2
    assert told in capsys.readouterr().err


def test_spark_is_not_loaded(tmp_path: Path) -> None:
    script = (
        "import sys\n"
        "from pathlib import Path\n"
        "from weft.api.monitoring import Options, verdicts\n"
        "files = Path(sys.argv[1])\n"
        "lines = list(verdicts(files / 's.sig', files / 'f.mfotl', files / 'l.log', Options()))\n"
        "print(len(lines), 'pyspark' in sys.modules)\n"
    )
    (tmp_path / "s.sig").write_text("P(int)")
    (tmp_path / "f.mfotl").write_text("P(x) AND NOT PREVIOUS ONCE[0,5] P(x)")
    (tmp_path / "l.log").write_text("".join(f"@{at} P({at % 3})\n" for at in range(2_000)))
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3] / "src")}
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, env=environment, check=True
    )
    assert done.stdout.split() == ["3", "False"]


@pytest.mark.parametrize(
    ("language", "formula", "options", "printed"),
    [
        ("2fol", "EXISTS TIME t. P(x) AT t AND t < NOW", (), [f"@{n} (time point {tp}): (1) (2){x}" for n, tp, x in
            ((2, 1, ""), (2, 2, " (3)"), (5, 3, " (3)"))]),
        ("2fol", "EXISTS TIME t, s. P(x) AT t AND t <= s", ("--duplicates",), ["@1 (time point 0): (1)*1 (2)*1",
            "@2 (time point 1): (1)*2 (2)*2 (3)*1", "@2 (time point 2): (1)*3 (2)*3 (3)*2",
            "@5 (time point 3): (1)*4 (2)*4 (3)*3"]),
        ("mutl", "MU X. (EXISTS x. P(x)) OR (PREVIOUS X) OR (PREVIOUS X)", (), ["@1 (time point 0): true*2",
            "@2 (time point 1): true*5", "@2 (time point 2): true*10", "@5 (time point 3): true*20"]),
        ("mutl-minmax", "MU X. (EXISTS x. P(x) OR P(x)) OR (PREVIOUS X)", (), ["@1 (time point 0): true*1",
            "@2 (time point 1): true*1", "@2 (time point 2): true*1", "@5 (time point 3): true*1"]),
    ],
)  # fmt: skip
def test_other_languages(
    files: Path,
    capsys: pytest.CaptureFixture[str],
    language: str,
    formula: str,
    options: tuple[str, ...],
    printed: list[str],
) -> None:
    assert monitored(files, formula, "--language", language, *options) == 0
    assert capsys.readouterr().out.splitlines() == printed


def test_that_the_log_is_kept_is_said_with_the_verdict_on_the_formula(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    last = "P(x) AT NOW AND NOT EXISTS TIME t. P(x) AT t AND t < NOW"
    for options, told in (
        ((), "bounded by Proposition 2.4, not constructed here"),
        (("--duplicates",), "no bound guaranteed (Theorem 3.2)"),
    ):
        assert monitored(files, last, "--language", "2fol", *options) == 0
        found = capsys.readouterr()
        assert told in found.err
        assert "NOT makes it no conjunctive query; the log is stored" in found.err
        assert len(found.out.splitlines()) == 2
    assert monitored(files, "EXISTS TIME t. P(x) AT t", "--language", "2fol") == 0
    assert not capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--duplicates",), "MonPoly formulas do not count duplicates"),
        (("--language", "2fol", "--negate"), "--negate applies to MonPoly formulas"),
    ],
)
def test_options_that_are_of_another_language(
    files: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...], told: str
) -> None:
    assert monitored(files, "P(x)", *options) == 2
    assert told in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("plain.gz", b"@1 P(1)", "is not compressed with gzip, although its name ends in .gz"),
        ("half.gz", gzip.compress(b"@1 P(1)\n" * 9, mtime=0)[:20], "is damaged or truncated"),
        ("latin.log", b"@1 P(1)\n@2 Q(1, \xff)", "is not UTF-8 text"),
    ],
)
def test_a_log_that_cannot_be_read_to_its_end_is_refused(
    files: Path, capsys: pytest.CaptureFixture[str], name: str, content: bytes, why: str
) -> None:
    (files / name).write_bytes(content)
    (files / "f.mfotl").write_text("P(x)")
    triple = ("--sig", f"{files}/s.sig", "--formula", f"{files}/f.mfotl", "--log", f"{files}/{name}")
    assert run(["monitor", *triple]) == 2
    told = capsys.readouterr().err
    assert why in told
    assert name in told


def test_a_division_by_0_is_told_after_the_verdicts_before_it(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (files / "l.log").write_text("@1 P(2)\n@2 P(0)\n@3 P(1)\n")
    assert monitored(files, "P(x) AND y = 6 / x") == 1
    told = capsys.readouterr()
    assert told.out.splitlines() == ["@1 (time point 0): (2,3)"]
    assert "6 / x divides by 0 at time point 1" in told.err


@pytest.mark.parametrize("formula", ["P(x) AND y = x + 9223372036854775807", "s <- SUM x P(x)"])
def test_a_number_beyond_64_bits_is_told_as_such(files: Path, capsys: pytest.CaptureFixture[str], formula: str) -> None:
    (files / "l.log").write_text("@1 P(9223372036854775807) P(1)\n")
    assert monitored(files, formula) == 1
    assert "A number exceeds BIGINT" in capsys.readouterr().err


def test_a_value_that_is_no_number_is_an_answer_beside_a_fixpoint_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = {"sig": "d(v:float)\n", "log": "@1 d(1e300)\n@2 d(2.5)\n"}
    folder["formula"] = "MU X(v, x). (d(v) AND x = v * v - v * v) OR DISTINCT PREVIOUS X(v, x)"
    options = ["monitor", "--language", "mutl"]
    for name, text in folder.items():
        (tmp_path / name).write_text(text)
        options += [f"--{name}", str(tmp_path / name)]
    assert run(options) == 0
    assert capsys.readouterr().out.splitlines() == [
        "@1 (time point 0): (1e+300,nan)*1",
        "@2 (time point 1): (2.5,0)*1 (1e+300,nan)*1",
    ]
