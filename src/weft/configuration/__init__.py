"""Read and check Weft's settings.

Environment variables override the file ``weft.toml`` in the home. The file overrides the defaults. A program may set
variables after the import of Weft, because Weft reads settings on use. An empty variable counts as unset.
"""

from __future__ import annotations

from weft.configuration.fields import FILE, PLACES, Configuration, User, require_zone
from weft.configuration.merge_settings import Setting, configuration, settings_of
from weft.configuration.object_store import s3_access
from weft.configuration.spilling import spill_folder

__all__ = [
    "FILE",
    "PLACES",
    "Configuration",
    "Setting",
    "User",
    "configuration",
    "require_zone",
    "s3_access",
    "settings_of",
    "spill_folder",
]
