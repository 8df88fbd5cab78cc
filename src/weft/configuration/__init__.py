"""Weft's settings: variables of the environment, over ``weft.toml`` in a home, over defaults; read and checked here.

They are read when they are needed, not when Weft is imported, so that a program may set them first.  A variable that
is empty is one that is not set.
"""

from __future__ import annotations

from weft.configuration.fields import FILE, PLACES, Configuration, User, require_zone
from weft.configuration.merge_settings import Setting, configuration, settings_of
from weft.configuration.spilling import spill_folder

__all__ = [
    "FILE",
    "PLACES",
    "Configuration",
    "Setting",
    "User",
    "configuration",
    "require_zone",
    "settings_of",
    "spill_folder",
]
