"""Run the command line as ``python -m weft``."""

from __future__ import annotations

from weft.cli import main

main()
