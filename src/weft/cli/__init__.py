"""The command line: one file a group of commands; nothing heavy is loaded before a command needs it."""

from __future__ import annotations

import sys
from typing import NoReturn


def main() -> NoReturn:
    """Runs the command of this process; exit code 0 for success, 2 for a refusal, 1 for a failure, 130 for Ctrl-C."""
    from weft.cli.app import run

    sys.exit(run(sys.argv[1:]))
