"""The state, the settings and the checks of a home as values for JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from weft.api.json.values import Fields, iso

if TYPE_CHECKING:
    from weft.api.copying import Copied
    from weft.api.destroying import Destroyed
    from weft.api.health import Health
    from weft.catalog.records import Lease, TickRecord
    from weft.configuration.merge_settings import Setting
    from weft.runtime.doctor import Check


def health_json(health: Health, server: str, problems: Sequence[str]) -> Fields:
    """Return the state of a home with the state of its ``server`` and all ``problems``."""
    tick = health.last_tick
    return {
        "healthy": not problems,
        "problems": list(problems),
        "at": iso(health.at),
        "queries": dict(health.queries),
        "last_tick": None if tick is None else tick_json(tick),
        "lag_seconds": None if health.lag_us is None else health.lag_us / 1_000_000,
        "deliveries": {"due": health.due, "failed": health.failed, "parked": health.parked, "muted": health.muted},
        "catalog": health.catalog,
        "server": server,
        "free_bytes": health.free_bytes,
        "purged_until": iso(health.purged_until),
    }


def tick_json(tick: TickRecord) -> Fields:
    """Return a tick."""
    return {"tick": tick.tick_id, "t": iso(tick.t), "state": tick.state, "committed_at": iso(tick.committed_at)}


def lease_json(lease: Lease) -> Fields:
    """Return a lease that a process holds."""
    return {
        "name": lease.name,
        "purpose": lease.purpose,
        "holder": lease.holder,
        "acquired_at": iso(lease.acquired_at),
        "expires_at": iso(lease.expires_at),
    }


def setting_json(setting: Setting) -> Fields:
    """Return a setting with its origin."""
    value = str(setting.value) if isinstance(setting.value, Path) else setting.value
    return {"setting": setting.key, "value": value, "from": setting.origin, "variable": setting.variable}


def check_json(check: Check) -> Fields:
    """Return a check of the doctor."""
    return {"name": check.name, "ok": check.ok, "seen": check.seen, "fix": check.fix}


def copied_json(copied: Copied) -> Fields:
    """Return the numbers of copied objects."""
    return {**asdict(copied), "home": str(copied.home)}


def destroyed_json(destroyed: Destroyed) -> Fields:
    """Return what was destroyed, and the files that stay."""
    return {**asdict(destroyed), "home": str(destroyed.home), "kept": [str(each) for each in destroyed.kept]}
