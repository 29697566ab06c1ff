"""Owners of sessions, identities, and a record of every text that became an arm.

Keys and decisions from before get the owner "". Sightings from before are deleted: they do not say
in which session a text was typed. Users who shared a session become one identity.
"""

import hashlib
import hmac
import json
from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
_PAGE = 10_000  # rows in one INSERT


def upgrade() -> None:
    """Add the columns and tables, and fill them from what the log contains."""
    op.add_column("counter", sa.Column("user_secret", sa.String(64)))
    for table in ("keys", "decisions"):
        owner = sa.Column("owner", sa.String(256), nullable=False, server_default="")
        op.add_column(table, owner)
    op.drop_index("decisions_of_session", "decisions")
    op.create_index("decisions_of_session", "decisions", ["owner", "session_id", "position"])
    identities = op.create_table(
        "identities",
        sa.Column("name", sa.String(64), primary_key=True),
        sa.Column("identity", sa.String(64), nullable=False),
    )
    op.create_index("ix_identities_identity", "identities", ["identity"])
    op.drop_table("sightings")
    op.create_table(
        "sightings",
        sa.Column("text_key", sa.String(64), primary_key=True),
        sa.Column("user_hash", sa.String(64), primary_key=True),
        sa.Column("session_key", sa.String(64), nullable=False),
    )
    op.drop_table("added_arms")
    arm_texts = op.create_table(
        "arm_texts",
        sa.Column("text_key", sa.String(64), primary_key=True),
        sa.Column("shown", sa.Text, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("arm", sa.BigInteger),
        sa.Column("owner", sa.String(256), nullable=False),
        sa.Column("qualified", sa.Float(53)),
        sa.Column("time", sa.Float(53), nullable=False),
    )
    op.create_index("ix_arm_texts_time", "arm_texts", ["time"])
    op.create_index("arm_texts_of_owner", "arm_texts", ["owner", "qualified"])
    connection = op.get_bind()
    secret = connection.execute(sa.text("SELECT secret FROM counter")).scalar_one()
    assert identities is not None
    assert arm_texts is not None
    _insert(connection, identities, _identities(connection, secret))
    _insert(connection, arm_texts, _arm_texts(connection, secret))


def _identities(connection: sa.Connection, secret: str) -> Iterable[dict[str, str]]:
    shared = "SELECT DISTINCT session_id, user_hash FROM decisions WHERE user_hash IS NOT NULL"
    parent: dict[str, str] = {}

    def root(name: str) -> str:
        while parent.setdefault(name, name) != name:
            parent[name] = parent[parent[name]]
            name = parent[name]
        return name

    for session_id, user_hash in connection.execute(sa.text(shared)):
        one, other = root(user_hash), root(_keyed(secret, "session", f"\0{session_id}"))
        parent[max(one, other)] = min(one, other)
    return ({"name": name, "identity": root(name)} for name in list(parent))


def _arm_texts(connection: sa.Connection, secret: str) -> Iterable[dict[str, object]]:
    changes = "SELECT kind, time, body FROM events WHERE kind IN ('arm_added', 'arm_removed')"
    rows: dict[int, dict[str, object]] = {}
    for kind, time, body in connection.execute(sa.text(f"{changes} ORDER BY position")):
        fields = _fields(body)
        if fields is None or (kind == "arm_added" and not isinstance(fields.get("text"), str)):
            continue  # the service will say that it is damaged; rebuild --repair makes it void
        if kind == "arm_added":
            rows[fields["arm"]] = {
                "text_key": _keyed(secret, "text", fields["text"]),
                "shown": str(fields.get("shown") or fields["text"]),
                "state": "added",
                "arm": fields["arm"],
                "owner": "",
                "qualified": time,
                "time": time,
            }
        elif fields["arm"] in rows:
            rows[fields["arm"]].update(state="removed", time=time)
    return {row["text_key"]: row for row in rows.values()}.values()


def _fields(body: str) -> dict[str, Any] | None:
    """Return the fields of an event about an arm; None if they cannot be read."""
    try:
        fields = json.loads(body)
    except ValueError:
        return None
    return fields if isinstance(fields, dict) and isinstance(fields.get("arm"), int) else None


def _insert(
    connection: sa.Connection, table: sa.Table, rows: Iterable[dict[str, object] | dict[str, str]]
) -> None:
    page: list[dict[str, object] | dict[str, str]] = []
    for row in rows:
        page.append(row)
        if len(page) == _PAGE:
            connection.execute(sa.insert(table), page)
            page = []
    if page:
        connection.execute(sa.insert(table), page)


def _keyed(secret: str, purpose: str, text: str) -> str:
    return hmac.new(secret.encode(), f"{purpose}\0{text}".encode(), hashlib.sha256).hexdigest()
