"""weft monitor: what it prints, its options, its cases, and how it ends."""

import os
import subprocess
import sys
from pathlib import Path

SIGNATURE = "P(x: int) Q(x: int, y: string) F(float)"
LOG = '@1 P(1) (2)\n@2 P(3) Q(3, "a b") @2\n@5 Q(1, c) F(2.5)\n'


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
