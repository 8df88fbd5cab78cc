"""Add up the rules that all shards of the oracle ran, print the counts, and fail a run in which a rule has no case."""

from __future__ import annotations

from collections import Counter

import pytest

from oracle import analytic_counts, view_courses
from oracle.fired import RULES, shown

TRIED = 2
"""The shards of ``test_laws`` that `make test` tries."""
TOTAL: Counter[str] = Counter()
COURSES: Counter[str] = Counter()
"""What ``test_view_courses`` counted."""

ANALYTIC: Counter[str] = Counter()
"""What ``test_analytic`` counted."""


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """A shard's counts come with its report, from another process, too."""
    if report.when == "call":
        TOTAL.update(dict(report.user_properties).get("oracle", {}))
        COURSES.update(dict(report.user_properties).get("courses", {}))
        ANALYTIC.update(dict(report.user_properties).get("analytic", {}))


def silent() -> list[str]:
    """The rules that a whole run, of the shards of `make test` at least, never reached."""
    found = [rule for rule in RULES if not TOTAL[rule]] if TOTAL["shards"] >= TRIED else []
    if COURSES["shards"] >= view_courses.TRIED:
        found += [each for each in (*view_courses.EQUATIONS, *view_courses.WORDS) if not COURSES[each]]
    if ANALYTIC["tried"] >= analytic_counts.MANY:
        found += [each for each in analytic_counts.NAMED if not ANALYTIC[each]]
    return found


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    if silent() and not hasattr(session.config, "workerinput"):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if TOTAL:
        terminalreporter.section("the oracle: how often each rule fired")
        terminalreporter.write_line(shown(TOTAL))
    if COURSES:
        terminalreporter.section("views kept along courses: what was tried, how often")
        terminalreporter.write_line("\n".join(f"{count:>9,}  {name}" for name, count in sorted(COURSES.items())))
    if ANALYTIC:
        terminalreporter.section("aggregates and window functions: what was tried, how often")
        terminalreporter.write_line("\n".join(f"{count:>9,}  {name}" for name, count in sorted(ANALYTIC.items())))
    if silent():
        terminalreporter.write_line(f"FAILED: no text made these fire: {', '.join(silent())}", red=True)
