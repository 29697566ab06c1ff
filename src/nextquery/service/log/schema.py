"""The tables: the log of events, and indexes to find things in it.

`events` is the source of truth. `counter` has one row; a writer holds its lock until the commit, so
positions have no gaps and become visible in order. `decisions` has the position and the outcome of
each decision; it follows from the events and saves reading them.
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    text,
)

metadata = MetaData()

counter = Table(
    "counter",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("position", BigInteger, nullable=False),
    Column("next_arm", BigInteger, nullable=False),
    Column("barrier", BigInteger, nullable=False),
    Column("model", BigInteger, nullable=False),
    Column("clock", Float(53), nullable=False),
    Column("secret", String(64), nullable=False),
)
"""`barrier`: position of the last event that every answer must respect; `model`: position of the
last model event; `clock`: the largest time so far."""

events = Table(
    "events",
    metadata,
    Column("position", BigInteger, primary_key=True, autoincrement=False),
    Column("kind", String(16), nullable=False),
    Column("time", Float(53), nullable=False),
    Column("decision_id", String(40), index=True),
    Column("body", Text, nullable=False),
)

decisions = Table(
    "decisions",
    metadata,
    Column("id", String(40), primary_key=True),
    Column("position", BigInteger, nullable=False, unique=True),
    Column("session_id", String(256), nullable=False),
    Column("request_key", String(64), unique=True),
    Column("request_hash", String(64)),
    Column("user_hash", String(64)),
    Column("time", Float(53), nullable=False),
    Column("state", String(16), nullable=False),
    Column("accepted", BigInteger),
    Column("arms", Text, nullable=False),
    Column("rewards", Text, nullable=False),
    Column("issued", Boolean, nullable=False),
    Column("delivered", Boolean, nullable=False),
    Index("decisions_of_session", "session_id", "position"),
    Index(
        "decisions_open",
        "time",
        sqlite_where=text("state = 'open'"),
        postgresql_where=text("state = 'open'"),
    ),
)
"""`state`: open, failed, accepted or undelivered. `arms`: the slate. `rewards`: the rewards of its
entries from the top; entries below are unobserved."""

sightings = Table(
    "sightings",
    metadata,
    Column("text_key", String(64), primary_key=True),
    Column("user_hash", String(64), primary_key=True),
)
"""Who typed a query that is not an arm, both as keyed hashes; deleted once it is an arm."""

added_arms = Table(
    "added_arms",
    metadata,
    Column("text_key", String(64), primary_key=True),
    Column("arm", BigInteger, nullable=False),
)

snapshots = Table(
    "snapshots",
    metadata,
    Column("position", BigInteger, primary_key=True, autoincrement=False),
    Column("sha256", String(64), nullable=False),
    Column("blob", LargeBinary, nullable=False),
)

keys = Table(
    "keys",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("hash", String(128), nullable=False, unique=True),
    Column("name", String(256), nullable=False),
    Column("scopes", String(256), nullable=False),
    Column("created", Float(53), nullable=False),
    Column("revoked", Float(53)),
)
