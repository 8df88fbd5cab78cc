"""The home: its state, checks and settings, ticks and maintenance."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Annotated, Final

from pydantic import Field

from weft.api.json.homes import check_json, health_json, lease_json, setting_json, tick_json
from weft.api.json.ticks import ticked_json
from weft.api.weft import Weft
from weft.web.api_v1.operation import Fields, Instant, Limit, Name, Operation


def show_status(weft: Weft) -> Fields:
    """Show the state of the home: queries, ticks, deliveries, disk and problems."""
    health = weft.health()
    return health_json(health, "this server", health.problems)


def list_ticks(weft: Weft, limit: Limit = 20) -> list[Fields]:
    """List the latest ticks, the newest first."""
    return [tick_json(each) for each in weft.latest_ticks(limit)]


def list_leases(weft: Weft) -> list[Fields]:
    """List the leases that a process holds, to write or to deliver."""
    return [lease_json(each) for each in weft.leases()]


def check_home(weft: Weft) -> list[Fields]:
    """Check the installation and the home, and show how to fix what is wrong."""
    return [check_json(each) for each in weft.doctor()]


def list_settings(weft: Weft) -> list[Fields]:
    """List the settings with their values and origins."""
    return [setting_json(each) for each in weft.settings()]


def tick_queries(
    weft: Weft,
    names: Annotated[list[Name], Field(max_length=1_000, description="The queries (default: all).")] = [],  # noqa: B006
    now: Annotated[Instant | None, Field(description="The clock of a replay home.")] = None,
) -> Fields:
    """Run one tick: find the answers that began since the last tick, and deliver them."""
    began = time.monotonic()
    ticked = weft.tick(names, now=now)
    return ticked_json(weft, ticked, time.monotonic() - began)


def maintain_home(
    weft: Weft, dry_run: Annotated[bool, Field(description="Show what would be done, and change nothing.")] = False
) -> list[Fields]:
    """Compact small data files, delete files that are no longer needed, and maintain arrangements."""
    return [asdict(step) for step in weft.maintain(dry_run=dry_run)]


OPERATIONS: Final = (
    Operation("GET", "/status", show_status, "home", "admin"),
    Operation("GET", "/ticks", list_ticks, "home"),
    Operation("GET", "/leases", list_leases, "home", "admin"),
    Operation("GET", "/doctor", check_home, "home", "admin", slow=True),
    Operation("GET", "/settings", list_settings, "home", "admin"),
    Operation("POST", "/tick", tick_queries, "home", "admin"),
    Operation("POST", "/maintain", maintain_home, "home", "admin"),
)
