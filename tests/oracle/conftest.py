"""Prints, at the end of a run, what all shards of the oracle made fire."""

from __future__ import annotations

from collections import Counter

import pytest

from oracle.fired import shown


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The shards' counts added up; they come with their reports, from other processes, too."""
    total: Counter[str] = Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            if getattr(report, "when", None) == "call":
                total.update(dict(report.user_properties).get("oracle", {}))
    if total:
        terminalreporter.section("the oracle: how often each rule fired")
        terminalreporter.write_line(shown(total))
