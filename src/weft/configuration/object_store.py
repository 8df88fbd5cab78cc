"""Find out how the object store of a home is reached: by the settings, AWS's variables and AWS's profile files."""

from __future__ import annotations

import os
from collections.abc import Mapping
from configparser import ConfigParser, Error
from pathlib import Path
from typing import Final

from weft.configuration.fields import Configuration
from weft.errors import Refused
from weft.store import S3Access

_REGION: Final = "us-east-1"
_FILES: Final = (
    ("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials", ""),
    ("AWS_CONFIG_FILE", "~/.aws/config", "profile "),
)
"""For each of AWS's files: the variable that names it, its default, and the prefix of its sections."""

_HINT: Final = (
    "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE for a profile in ~/.aws/credentials, "
    "or store.profile in weft.toml."
)


def s3_access(chosen: Configuration) -> S3Access:
    """Return how the object store is reached.

    Keys of the settings come before those of a profile. Without either, the clients ask the machine for its role, as
    they do for AWS. Raise Refused if the settings contradict each other, or if a profile cannot be read.
    """
    key, secret = chosen.store_access_key_id, chosen.store_secret_access_key
    token = chosen.store_session_token if os.environ.get("AWS_ACCESS_KEY_ID") else None  # it belongs to that key
    if (key is None) != (secret is None):
        lacking = "ID" if key is None else "secret"
        raise Refused(f"the settings have a part of the access key for the object store, not its {lacking}", hint=_HINT)
    profile = _profile(chosen.store_profile)
    if key is None:
        key, secret, token = (
            profile.get(name) for name in ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")
        )
    if key is None and profile.keys() & {"role_arn", "sso_session", "sso_start_url", "credential_process"}:
        name = chosen.store_profile or "default"
        raise Refused(
            f"the profile {name!r} has no aws_access_key_id, and Weft reads no other login",
            hint="Run `aws configure export-credentials --format env`, which prints the variables with keys.",
        )
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or chosen.store_endpoint or profile.get("endpoint_url")
    region = chosen.store_region or os.environ.get("AWS_DEFAULT_REGION") or profile.get("region") or _REGION
    return S3Access(_checked(endpoint, chosen), region, key, secret, token)


def _checked(endpoint: str | None, chosen: Configuration) -> str | None:
    if endpoint is None:
        return None
    if not endpoint.startswith(("http://", "https://")):
        raise Refused(
            f"the endpoint of the object store is {endpoint!r}: it should be a URL such as https://s3.example.com",
            hint="Correct store.endpoint or AWS_ENDPOINT_URL.",
        )
    if endpoint.startswith("http://") and chosen.store_allow_http is False:
        raise Refused(
            f"the endpoint {endpoint} is not encrypted, and AWS_ALLOW_HTTP forbids this",
            hint="Name an endpoint with https://, or unset AWS_ALLOW_HTTP.",
        )
    return endpoint.rstrip("/")


def _profile(name: str | None) -> Mapping[str, str]:
    """Return the entries of a profile in AWS's files. Without a name, a missing profile has no entries."""
    found: dict[str, str] = {}
    there = False
    for variable, default, prefix in _FILES:
        file = Path(os.environ.get(variable) or default).expanduser()
        parser = ConfigParser(interpolation=None, default_section="", strict=False)
        try:
            parser.read_string(file.read_text(encoding="utf-8"), str(file))
        except FileNotFoundError:
            continue
        except (OSError, UnicodeDecodeError, Error) as error:
            if name is None:  # another program may use the file
                continue
            # The text of a parser's error has the line, which may be a secret.
            reason = error.strerror if isinstance(error, OSError) else "it is not a file with profiles"
            raise Refused(f"the profile {name!r} cannot be read: {reason}", where=str(file)) from None
        for section in (f"{prefix}{name or 'default'}", name or "default"):
            if parser.has_section(section):
                there = True
                found = {**dict(parser[section]), **found}
                break
    if name is not None and not there:
        raise Refused(
            f"AWS's files have no profile {name!r}",
            hint="Correct AWS_PROFILE or store.profile, or add the profile to ~/.aws/credentials.",
        )
    return found
