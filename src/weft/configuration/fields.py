"""Define every user setting: its key in ``weft.toml``, its environment variable, its default, and its valid values."""

from __future__ import annotations

import base64
import difflib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from weft.access import Access
from weft.configuration.postgres_uri import why_no_catalog
from weft.errors import Refused, WeftError
from weft.instants import parse_interval
from weft.store import S3Store, store_of

_NONE: Final = ("0", "0s")
_LONGEST_RETENTION: Final = "7d"

FILE: Final = "weft.toml"
"""The name of the settings file in a home."""


@dataclass(frozen=True)
class Place:
    """The key of a setting in the file, and its environment variable. The key or the variable may be None.

    Weft never shows the value of a ``secret`` setting.
    """

    key: str | None
    variable: str | None = None
    secret: bool = False


def _memory(text: str) -> str:
    if re.fullmatch(r"[1-9][0-9]*[kKmMgGtT]", text) is None:
        raise ValueError("it should be a number with a unit, such as 512m or 2g")
    return text


def _address(text: str) -> str:
    if re.fullmatch(r"[^@\s<>,;]+@[^@\s<>,;]+", text) is None:
        raise ValueError("it is not an address such as ann@example.com")
    return text


def _https(text: str) -> str:
    if re.fullmatch(r"https://[^\s/]\S*", text) is None:
        raise ValueError("it should be an address that begins with https://")
    return text


def _web(text: str) -> str:
    if re.fullmatch(r"https?://[^\s/?#]+(/[^\s?#]*)?", text) is None:
        raise ValueError("it should be an address such as https://weft.example.com")
    return text.rstrip("/")


def _zone(text: str) -> str:
    import zoneinfo

    try:
        zoneinfo.ZoneInfo(text)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        near = difflib.get_close_matches(text, zoneinfo.available_timezones(), 1, 0.6)
        meant = f": did you mean {near[0]}?" if near else ", such as Europe/Paris"
        raise ValueError(f"it is not a time zone{meant}") from None
    return text


def require_zone(text: str) -> str:
    """Return the name of a time zone unchanged. Raise Refused if the zone is unknown."""
    try:
        return _zone(text)
    except ValueError as error:
        raise Refused(f"the time zone is {text!r}: {error}") from None


def _length(text: str) -> str:
    try:
        parse_interval(text)
    except WeftError as error:
        raise ValueError(error.message) from None
    return text


def _retention(text: str) -> str:
    if text not in _NONE and parse_interval(_length(text)) > parse_interval(_LONGEST_RETENTION):
        raise ValueError(f"files can be retained for at most {_LONGEST_RETENTION}")
    return text


def _no_bool(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("it should be a number")
    return value


def _secret(text: str) -> str:
    """Return a secret in the format of Standard Webhooks. Raise ValueError if the secret does not have 24 to 64
    bytes.
    """
    prefix, _, encoded = text.rpartition("_")
    try:
        length = len(base64.b64decode(encoded, validate=True))
    except ValueError:
        length = 0
    if prefix != "whsec" or not 24 <= length <= 64:
        raise ValueError("it should be whsec_ followed by the base64 of 24 to 64 bytes")
    return text


def _catalog(url: str) -> str:
    wrong = why_no_catalog(url)
    if wrong is not None:
        raise ValueError(wrong)
    return url


def _store(url: str) -> str:
    try:
        store = store_of(url)
    except Refused as error:
        raise ValueError(error.message) from None
    if not isinstance(store, S3Store):
        raise ValueError("it should be a place such as s3://bucket/home")
    return store.uri


def _one_or_more(value: Any) -> Any:
    return (value,) if isinstance(value, str) else value


Memory = Annotated[str, AfterValidator(_memory)]
Address = Annotated[str, AfterValidator(_address)]
Https = Annotated[str, AfterValidator(_https)]
WebUrl = Annotated[str, AfterValidator(_web)]
Length = Annotated[str, AfterValidator(_length)]
Retention = Annotated[str, AfterValidator(_retention)]
Secret = Annotated[str, AfterValidator(_secret)]
Zone = Annotated[str, AfterValidator(_zone)]
StoreUrl = Annotated[str, AfterValidator(_store)]
CatalogUrl = Annotated[str, AfterValidator(_catalog)]
Texts = Annotated[tuple[str, ...], BeforeValidator(_one_or_more)]
Whole = Annotated[int, BeforeValidator(_no_bool)]
Number = Annotated[float, BeforeValidator(_no_bool)]


class User(BaseModel):
    """The settings of one person: the time zone for messages, and the e-mail address."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    zone: Zone | None = None
    email: Address | None = None


class Configuration(BaseModel):
    """The effective settings. Each field has a ``Place`` and a description."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    home: Annotated[Path, Place(None, "WEFT_HOME")] = Field(default=Path("weft-home"), description="a home's folder")
    home_access: Annotated[Access, Place("home.access", "WEFT_HOME_ACCESS")] = Field(
        default="owner",
        description="who may read and write a home: owner, group (of its folder) or umask (whom the umask allows)",
    )
    catalog_url: Annotated[CatalogUrl | None, Place("catalog.url")] = Field(
        default=None,
        description="the PostgreSQL database that holds the catalog; by default the home's file catalog.sqlite does",
    )
    store_url: Annotated[StoreUrl | None, Place("store.url")] = Field(
        default=None,
        description="the object store that holds the data: s3://BUCKET/PREFIX; by default the home's folder does",
    )
    store_endpoint: Annotated[str | None, Place("store.endpoint", "AWS_ENDPOINT_URL")] = Field(
        default=None, description="the URL of the object store's server; by default AWS itself"
    )
    store_region: Annotated[str | None, Place("store.region", "AWS_REGION")] = Field(
        default=None, description="the region of the object store; by default that of the profile, else us-east-1"
    )
    store_profile: Annotated[str | None, Place("store.profile", "AWS_PROFILE")] = Field(
        default=None, min_length=1, description="the profile in ~/.aws/credentials and ~/.aws/config"
    )
    store_access_key_id: Annotated[str | None, Place("store.access_key_id", "AWS_ACCESS_KEY_ID", secret=True)] = Field(
        default=None, min_length=1, description="the ID of the access key for the object store"
    )
    store_secret_access_key: Annotated[
        str | None, Place("store.secret_access_key", "AWS_SECRET_ACCESS_KEY", secret=True)
    ] = Field(default=None, min_length=1, description="the secret access key for the object store")
    store_session_token: Annotated[str | None, Place(None, "AWS_SESSION_TOKEN", secret=True)] = Field(
        default=None, description="the token of a temporary access key"
    )
    store_allow_http: Annotated[bool | None, Place(None, "AWS_ALLOW_HTTP")] = Field(
        default=None, description="whether the endpoint may be unencrypted (http://); by default it may"
    )
    cache: Annotated[Path | None, Place(None, "WEFT_CACHE")] = Field(
        default=None, description="the folder for files that Weft can create again"
    )
    maven: Annotated[Https | None, Place(None, "WEFT_MAVEN")] = Field(
        default=None, description="the HTTPS address of a Maven repository instead of Maven Central"
    )
    class_archive: Annotated[Literal["auto", "existing", "off"], Place(None, "WEFT_CLASS_ARCHIVE")] = Field(
        default="auto",
        description="auto: use a class-data archive, and create a missing one; existing: only use one; off: neither",
    )
    files_root: Annotated[Path | None, Place("files.root", "WEFT_FILES_ROOT")] = Field(
        default=None, description="the folder under which file channels write"
    )
    delta_root: Annotated[Path | None, Place("delta.root", "WEFT_DELTA_ROOT")] = Field(
        default=None, description="the folder under which channels write Delta tables"
    )
    retention: Annotated[Retention, Place("storage.retention", "WEFT_RETENTION")] = Field(
        default="7d", description="how long removed data files stay on disk for readers: 0s to 7d"
    )
    spark_master: Annotated[str | None, Place("spark.master", "WEFT_SPARK_MASTER")] = Field(
        default=None, description="Spark's master URL"
    )
    spark_memory: Annotated[Memory | None, Place("spark.memory", "WEFT_SPARK_MEMORY")] = Field(
        default=None, description="the memory of Spark's JVM, a number with a unit: 512m, 2g"
    )
    spark: dict[str, str] = Field(default={}, description="further Spark settings by name: spark.…")
    query_seconds: Annotated[Number, Place("limits.seconds", "WEFT_QUERY_SECONDS")] = Field(
        default=600.0,
        ge=1,
        le=1_000_000,
        allow_inf_nan=False,
        description="the time limit of a query in one tick, or in `weft try`, in seconds",
    )
    query_rows: Annotated[Whole, Place("limits.rows", "WEFT_QUERY_ROWS")] = Field(
        default=10_000_000,
        ge=1,
        le=2**31,
        description="the most rows that a query may add in one tick, or return in `weft try`",
    )
    query_depth: Annotated[Whole, Place("limits.depth", "WEFT_QUERY_DEPTH")] = Field(
        default=100,
        ge=1,
        le=100_000,
        description="the most steps of a recursion (WITH RECURSIVE) in a query",
    )
    smtp_host: Annotated[str | None, Place("smtp.host", "WEFT_SMTP_HOST")] = Field(
        default=None, min_length=1, description="the mail server (SMTP)"
    )
    smtp_port: Annotated[Whole | None, Place("smtp.port", "WEFT_SMTP_PORT")] = Field(
        default=None,
        ge=1,
        le=65535,
        description="the port of the mail server; by default 587 with starttls, 465 with implicit, 25 with none",
    )
    smtp_tls: Annotated[Literal["starttls", "implicit", "none"], Place("smtp.tls", "WEFT_SMTP_TLS")] = Field(
        default="starttls", description="the encryption of the connection: starttls, implicit or none"
    )
    smtp_ca_file: Annotated[Path | None, Place("smtp.ca_file", "WEFT_SMTP_CA_FILE")] = Field(
        default=None, description="a file with the certificates to trust instead of the system's"
    )
    smtp_user: Annotated[str | None, Place("smtp.user", "WEFT_SMTP_USER")] = Field(
        default=None, min_length=1, description="the user name for the mail server"
    )
    smtp_password: Annotated[str | None, Place("smtp.password", "WEFT_SMTP_PASSWORD", secret=True)] = Field(
        default=None, min_length=1, description="the password for the mail server"
    )
    smtp_password_env: Annotated[str | None, Place("smtp.password_env")] = Field(
        default=None, min_length=1, description="the environment variable with the password"
    )
    smtp_password_file: Annotated[Path | None, Place("smtp.password_file", "WEFT_SMTP_PASSWORD_FILE")] = Field(
        default=None, description="the file with the password"
    )
    smtp_from: Annotated[Address | None, Place("smtp.from", "WEFT_SMTP_FROM")] = Field(
        default=None, description="the sender address, such as weft@example.com"
    )
    smtp_timeout: Annotated[Number, Place("smtp.timeout", "WEFT_SMTP_TIMEOUT")] = Field(
        default=30.0,
        ge=0.1,
        le=120,
        allow_inf_nan=False,
        description="the timeout of each reply of the mail server, in seconds, 0.1 to 120",
    )
    smtp_unknown: Annotated[Literal["again", "hold"], Place("smtp.unknown", "WEFT_SMTP_UNKNOWN")] = Field(
        default="again", description="what to do with a message that may have been sent: again (send it again) or hold"
    )
    webhook_secret: Annotated[Secret | None, Place("webhook.secret", "WEFT_WEBHOOK_SECRET", secret=True)] = Field(
        default=None, description="the secret that signs webhooks: whsec_ and the base64 of 24 to 64 bytes"
    )
    webhook_private: Annotated[bool, Place("webhook.private")] = Field(
        default=False, description="whether webhooks may go to addresses that are not public, and unencrypted"
    )
    webhook_ca_file: Annotated[Path | None, Place("webhook.ca_file", "WEFT_WEBHOOK_CA_FILE")] = Field(
        default=None, description="a file with the certificates to trust instead of the system's"
    )
    webhook_timeout: Annotated[Number, Place("webhook.timeout", "WEFT_WEBHOOK_TIMEOUT")] = Field(
        default=15.0,
        ge=0.1,
        le=120,
        allow_inf_nan=False,
        description="the timeout of a reply, in seconds, 0.1 to 120",
    )
    exec_commands: Annotated[Texts, Place("exec.commands")] = Field(
        default=(), description="the commands that may receive answers, word for word"
    )
    exec_timeout: Annotated[Number, Place("exec.timeout", "WEFT_EXEC_TIMEOUT")] = Field(
        default=60.0,
        ge=0.1,
        le=300,
        allow_inf_nan=False,
        description="the time limit of such a command, in seconds, 0.1 to 300",
    )
    install_every: Annotated[Length | None, Place("install.every")] = Field(
        default=None, description="the timeliness of new queries, such as 1h"
    )
    install_to: Annotated[Texts, Place("install.to")] = Field(
        default=(), description="the channels of new queries: a list"
    )
    install_user: Annotated[str | None, Place("install.user")] = Field(
        default=None, min_length=1, description="the owner of new queries"
    )
    install_from: Annotated[Literal["start", "now"], Place("install.from")] = Field(
        default="start", description="from when new queries deliver answers: start or now"
    )
    audit_retention: Annotated[Length, Place("audit.retention")] = Field(
        default="365d", description="how long the log keeps who did what; `weft maintain` deletes older records"
    )
    web_unsubscribe: Annotated[Length, Place("web.unsubscribe")] = Field(
        default="365d", description="how long the link in a letter ends the letters"
    )
    web_url: Annotated[WebUrl | None, Place("web.url", "WEFT_WEB_URL")] = Field(
        default=None,
        description="the public address of the page, for links in letters: https://weft.example.com",
    )
    web_proxy: Annotated[Texts, Place("web.proxy")] = Field(
        default=(), description="the addresses of proxies whose header names the user, such as 127.0.0.1: a list"
    )
    web_proxy_header: Annotated[str, Place("web.proxy_header")] = Field(
        default="X-Forwarded-User", min_length=1, description="the header in which such a proxy names the user"
    )
    web_forwarded_by: Annotated[Texts, Place("web.forwarded_by")] = Field(
        default=(),
        description="the addresses of proxies whose X-Forwarded-For names the machine of the browser, such as "
        "127.0.0.1: a list",
    )
    users: dict[str, User] = Field(default={}, description="people by name: zone, email")

    @property
    def retention_us(self) -> int:
        """The retention of removed data files in microseconds."""
        return 0 if self.retention in _NONE else parse_interval(self.retention)

    @property
    def mail_port(self) -> int:
        """The port of the mail server."""
        return self.smtp_port or {"starttls": 587, "implicit": 465, "none": 25}[self.smtp_tls]

    def zone_of(self, user: str, email: str | None = None) -> str:
        """Return the time zone of the person with the address ``email``, or else that of ``user``, or else UTC."""
        zones = {each.email: each.zone for each in self.users.values() if each.email is not None}
        own = self.users.get(user)
        return (zones.get(email) if email else None) or (own.zone if own is not None else None) or "UTC"


def place_of(field: str) -> Place | None:
    """Return the ``Place`` of a field. Return None for ``spark`` and ``users``, which have many keys."""
    metadata = Configuration.model_fields[field].metadata
    return next((each for each in metadata if isinstance(each, Place)), None)


PLACES: Final = {name: place for name in Configuration.model_fields if (place := place_of(name)) is not None}
"""The ``Place`` of each field except for ``spark`` and ``users``."""


def description(field: str) -> str:
    """Return the description of a field."""
    return Configuration.model_fields[field].description or ""
