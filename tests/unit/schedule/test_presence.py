"""Who else ticks a home."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

from weft.schedule.runner import ticking_alone

_ASKED = """
import sys
from pathlib import Path
from weft.schedule.runner import ticking_alone
with ticking_alone(Path(sys.argv[1])) as other:
    print(other)
"""


def _another(home: Path) -> str:
    return subprocess.run([sys.executable, "-c", _ASKED, str(home)], capture_output=True, text=True, check=True).stdout


def test_the_second_gets_a_note_while_the_first_runs(tmp_path: Path) -> None:
    with ticking_alone(tmp_path) as other:
        assert other is None
        assert _another(tmp_path) == f"{os.getpid()} of {socket.gethostname()}\n"
    assert _another(tmp_path) == "None\n"
