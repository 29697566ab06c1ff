"""The first tables."""

import secrets

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Make the tables and the counter's one row."""
    counter = op.create_table(
        "counter",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("position", sa.BigInteger, nullable=False),
        sa.Column("next_arm", sa.BigInteger, nullable=False),
        sa.Column("barrier", sa.BigInteger, nullable=False),
        sa.Column("model", sa.BigInteger, nullable=False),
        sa.Column("clock", sa.Float(53), nullable=False),
        sa.Column("secret", sa.String(64), nullable=False),
    )
    assert counter is not None
    start = {"id": 1, "position": 0, "next_arm": 0, "barrier": 0, "model": 0}
    op.bulk_insert(counter, [{**start, "clock": 0.0, "secret": secrets.token_hex(32)}])
    op.create_table(
        "events",
        sa.Column("position", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("time", sa.Float(53), nullable=False),
        sa.Column("decision_id", sa.String(40)),
        sa.Column("body", sa.Text, nullable=False),
    )
    op.create_index("ix_events_decision_id", "events", ["decision_id"])
    op.create_table(
        "decisions",
        sa.Column("id", sa.String(40), primary_key=True),
        sa.Column("position", sa.BigInteger, nullable=False, unique=True),
        sa.Column("session_id", sa.String(256), nullable=False),
        sa.Column("request_key", sa.String(64), unique=True),
        sa.Column("request_hash", sa.String(64)),
        sa.Column("user_hash", sa.String(64)),
        sa.Column("time", sa.Float(53), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("accepted", sa.BigInteger),
        sa.Column("arms", sa.Text, nullable=False),
        sa.Column("rewards", sa.Text, nullable=False),
        sa.Column("issued", sa.Boolean, nullable=False),
        sa.Column("delivered", sa.Boolean, nullable=False),
    )
    op.create_index("decisions_of_session", "decisions", ["session_id", "position"])
    still_open = sa.text("state = 'open'")
    op.create_index(
        "decisions_open",
        "decisions",
        ["time"],
        sqlite_where=still_open,
        postgresql_where=still_open,
    )
    op.create_table(
        "sightings",
        sa.Column("text_key", sa.String(64), primary_key=True),
        sa.Column("user_hash", sa.String(64), primary_key=True),
    )
    op.create_table(
        "added_arms",
        sa.Column("text_key", sa.String(64), primary_key=True),
        sa.Column("arm", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "snapshots",
        sa.Column("position", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("sha256", sa.String(64), nullable=False),
        sa.Column("blob", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "keys",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("hash", sa.String(128), nullable=False, unique=True),
        sa.Column("name", sa.String(256), nullable=False),
        sa.Column("scopes", sa.String(256), nullable=False),
        sa.Column("created", sa.Float(53), nullable=False),
        sa.Column("revoked", sa.Float(53)),
    )
