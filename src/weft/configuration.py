"""Weft's settings: every variable of the environment that a user may set, read and checked in one place.

They are read when they are needed, not when Weft is imported, so that a program may set them first.  One that is empty
is one that is not set.
"""

from __future__ import annotations

import difflib
import os
import tempfile
from pathlib import Path
from typing import Final, Literal

from pydantic import Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from weft.errors import Refused

_PREFIX: Final = "WEFT_"
_ALIKE: Final = 0.85


class Configuration(BaseSettings):
    """What the environment says; a field's ``validation_alias`` is its variable."""

    model_config = SettingsConfigDict(env_ignore_empty=True, frozen=True, extra="ignore", case_sensitive=True)

    home: Path = Field(default=Path("weft-home"), validation_alias="WEFT_HOME", description="a home's folder")
    files_root: Path | None = Field(
        default=None, validation_alias="WEFT_FILES_ROOT", description="the folder under which file channels write"
    )
    cache: Path | None = Field(
        default=None, validation_alias="WEFT_CACHE", description="the folder for what can always be made again"
    )
    jars: Path | None = Field(default=None, validation_alias="WEFT_JARS", description="a folder that has Delta's jars")
    ivysettings: str | None = Field(
        default=None, validation_alias="WEFT_IVYSETTINGS", description="an Ivy settings file"
    )
    spark_master: str | None = Field(
        default=None, validation_alias="WEFT_SPARK_MASTER", description="Spark's master URL"
    )
    spark_memory: str | None = Field(
        default=None,
        validation_alias="WEFT_SPARK_MEMORY",
        pattern=r"^[1-9][0-9]*[kKmMgGtT]$",
        description="the memory of Spark's JVM, a number and its unit: 512m, 2g",
    )
    class_archive: Literal["auto", "off"] = Field(
        default="auto",
        validation_alias="WEFT_CLASS_ARCHIVE",
        description="whether a class-data archive is used, and made by itself: auto or off",
    )
    query_seconds: float = Field(
        default=600.0,
        validation_alias="WEFT_QUERY_SECONDS",
        ge=1,
        le=1_000_000,
        allow_inf_nan=False,
        description="how long a query may take in one tick, or in `weft try`, in seconds",
    )
    query_rows: int = Field(
        default=10_000_000,
        validation_alias="WEFT_QUERY_ROWS",
        ge=1,
        le=2**31,
        description="how many rows a query may add in one tick, or give in `weft try`",
    )


def configuration() -> Configuration:
    """The settings as the environment has them now; raises Refused, naming the variable, for one that cannot be."""
    try:
        return Configuration()
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0])
        raise Refused(
            f"{name} is {str(first['input'])!r}: {first['msg'][:1].lower()}{first['msg'][1:]}",
            hint=f"It says {_descriptions()[name]}. Set it anew, or unset it for the default.",
        ) from None


def spill_folder() -> Path:
    """The folder for what this process cannot hold in memory; whoever needs it makes it, and takes it away."""
    return Path(tempfile.gettempdir(), f"weft-spill-{os.getpid()}")


def misspelt() -> dict[str, str]:
    """Variables of the environment that look like one of Weft's and are none, each with the one that it looks like."""
    known = list(_descriptions())
    strangers = [name for name in os.environ if name.startswith(_PREFIX) and name not in known]
    near = {name: difflib.get_close_matches(name, known, 1, _ALIKE) for name in strangers}
    return {name: found[0] for name, found in near.items() if found}


def _descriptions() -> dict[str, str]:
    """What each variable says."""
    return {str(field.validation_alias): field.description or "" for field in Configuration.model_fields.values()}
