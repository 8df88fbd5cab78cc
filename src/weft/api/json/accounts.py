"""Users, groups, rights and secrets as values for JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from weft.instants import format_rfc3339

if TYPE_CHECKING:
    from weft.api.signing_in import Issued
    from weft.catalog.audit import AuditRecord
    from weft.catalog.grants import GrantRecord
    from weft.catalog.secrets import SecretRecord
    from weft.catalog.users import GroupRecord, UserRecord


def user_json(user: UserRecord) -> dict[str, Any]:
    """Return a user."""
    return {
        "id": user.user_id,
        "name": user.name,
        "role": user.role,
        "groups": list(user.groups),
        "has_password": user.has_password,
        "limits": {"queries": user.limits.queries, "rows": user.limits.rows, "seconds": user.limits.seconds},
        "digest": user.digest,
        "zone": user.zone,
        "added_at": format_rfc3339(user.added_at),
    }


def group_json(group: GroupRecord) -> dict[str, Any]:
    """Return a group."""
    return {"id": group.group_id, "name": group.name, "members": list(group.members)}


def grant_json(grant: GrantRecord) -> dict[str, Any]:
    """Return a right of a user or a group."""
    return {
        "to": grant.subject,
        "right": grant.right.value,
        "kind": grant.kind,
        "on": grant.about,
        "granted_by": grant.granted_by,
        "granted_at": format_rfc3339(grant.granted_at),
    }


def secret_json(secret: SecretRecord, users: Mapping[int, str]) -> dict[str, Any]:
    """Return a token or a link without its secret.  ``users`` maps IDs to names."""
    return {
        "id": secret.secret_id,
        "kind": secret.kind,
        "user": None if secret.user_id is None else users.get(secret.user_id),
        "query": secret.query_id,
        "label": secret.label,
        "scopes": None if secret.scopes is None else sorted(secret.scopes),
        "made_at": format_rfc3339(secret.made_at),
        "expires_at": None if secret.expires_at is None else format_rfc3339(secret.expires_at),
    }


def issued_json(issued: Issued, users: Mapping[int, str]) -> dict[str, Any]:
    """Return a new token or link with its secret."""
    return {**secret_json(issued.record, users), "secret": issued.secret}


def audit_json(record: AuditRecord) -> dict[str, Any]:
    """Return a record of the audit log."""
    return {
        "id": record.audit_id,
        "at": format_rfc3339(record.at),
        "user": record.user,
        "door": record.door,
        "address": record.address,
        "action": record.action,
        "about": record.about,
        "outcome": record.outcome,
    }
