"""The tables: the log of events, and indexes into it; and the limits on what callers send.

`events` is the source of truth. `counter` has one row; a writer holds its lock until the commit,
so positions have no gaps and become visible in order. `decisions` has the position and the
outcome of each decision; it follows from the events and saves reading them.

The library, the HTTP routes and the tables share one set of limits.
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

LONGEST_ID = 256
"""Characters in a session, user, request or decision id."""
LONGEST_QUERY = 2000
"""Characters in a query."""
LONGEST_KEY_NAME = 200
"""Characters in the name of an API key."""
MOST_TRAIL = 20
"""Earlier queries on a map."""
LONGEST_TRAIL = 4000
"""Characters in all earlier queries on a map together."""
MOST_RECOMMENDATIONS = 100
"""Recommendations in one answer; the setting `m_max` may lower it."""


VERSION = 1
"""The version of the tables. Whoever changes them counts it up, and says how a store follows."""

metadata = MetaData()

store_version = Table(
    "store_version",
    metadata,
    Column("version", Integer, primary_key=True, autoincrement=False),
)
"""Has one row: the `VERSION` that the tables were made with."""

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
    Column("user_secret", String(64)),
    Column("erased", BigInteger, nullable=False),
    Column("cleaned", BigInteger, nullable=False),
    Column("erasing", Float(53)),
)
"""`barrier`: position of the last event that every answer must respect; `model`: position of the
last model event; `clock`: the largest time so far; `secret`: the key of the store's own hashes;
`user_secret`: a hash of the `user_hash_secret` that the store is used with; `erased`: position of
the last erasure; `cleaned`: that of the last one whose traces are gone from the files; `erasing`:
when an erasure that is not finished last went on (NULL: none is unfinished)."""

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
    Column("owner", String(256), nullable=False),
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
    Column("person", String(64)),
    Index("decisions_of_session", "owner", "session_id", "position"),
    Index(
        "decisions_open",
        "time",
        sqlite_where=text("state = 'open'"),
        postgresql_where=text("state = 'open'"),
    ),
)
"""`state`: open, failed, accepted or undelivered. `arms`: the slate. `rewards`: the rewards of its
entries from the top; entries below are unobserved. `owner`: whose session it is (see `keys`).
`person`: the keyed hash of who asked, if the id could be trusted."""

identities = Table(
    "identities",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("identity", String(64), nullable=False, index=True),
    Column("time", Float(53), nullable=False),
)
"""Users and sessions, as keyed hashes, by identity: users who ever shared a session have one.
`time`: when the name was first seen."""

sightings = Table(
    "sightings",
    metadata,
    Column("text_key", String(64), primary_key=True),
    Column("user_hash", String(64), primary_key=True),
    Column("session_key", String(64), nullable=False),
    Column("time", Float(53), nullable=False),
)
"""Who first typed a query that was not an arm, in which session and when, all as keyed hashes. They
stay when it becomes an arm, so that it can be counted again when somebody is forgotten."""

arm_texts = Table(
    "arm_texts",
    metadata,
    Column("text_key", String(64), primary_key=True),
    Column("shown", Text, nullable=False),
    Column("state", String(16), nullable=False),
    Column("arm", BigInteger),
    Column("owner", String(256), nullable=False),
    Column("qualified", Float(53)),
    Column("time", Float(53), nullable=False, index=True),
    Column("min_users", Integer),
    Index("arm_texts_of_owner", "owner", "qualified"),
)
"""Texts that became arms here, wait for review, or must never be arms: `state` is added, held,
rejected or removed. `qualified`: when enough users had typed it (NULL: an arm of the pool);
`owner`: whose request that was; `time`: the last change; `min_users`: how many it took (NULL: an
arm of the pool or of an operator; negative: too few of them are
left, so the text is being erased). A text in this table never becomes an arm (again). `shown` is
empty once the text is erased."""

teaching = Table(
    "teaching",
    metadata,
    Column("day", BigInteger, primary_key=True, autoincrement=False),
    Column("who", String(320), primary_key=True),
    Column("count", BigInteger, nullable=False),
)
"""How many decisions of a user, a session or an owner taught the model, by day."""

leases = Table(
    "leases",
    metadata,
    Column("name", String(32), primary_key=True),
    Column("holder", String(64), nullable=False),
    Column("until", Float(53), nullable=False),
)
"""Work that one worker does for all: which work, who does it, and until when nobody else may."""

snapshots = Table(
    "snapshots",
    metadata,
    Column("position", BigInteger, primary_key=True, autoincrement=False),
    Column("sha256", String(64), nullable=False),
    Column("blob", LargeBinary, nullable=False),
)

exports = Table(
    "exports",
    metadata,
    Column("path", String(4096), primary_key=True),
    Column("host", String(256), primary_key=True),
    Column("format", String(16), nullable=False),
    Column("pool", String(4096)),
    Column("time", Float(53), nullable=False),
)
"""Files that `nextquery export --out` wrote, on which machine, and with which pool if the format
needs one: an erasure writes them anew."""

keys = Table(
    "keys",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("hash", String(128), nullable=False, unique=True),
    Column("name", String(256), nullable=False),
    Column("scopes", String(256), nullable=False),
    Column("created", Float(53), nullable=False),
    Column("revoked", Float(53)),
    Column("owner", String(256), nullable=False),
    Column("trusted_users", Boolean, nullable=False),
)
"""`owner`: whose sessions the key sees and adds to; keys of one application share it. It is empty
for requests without a key. `trusted_users`: whether the
`user_id` of its requests is trusted without a signature."""
