"""Export the log in the formats of other programs; `FORMATS` lists them all.

An export is streamed in order of position, with one page of decisions in memory at a time.

- *UBI 1.3* in JSON Lines. A slate that was never delivered has no impressions.
- *Parquet*: one row per slate entry, for off-policy estimates.
- *Open Bandit Pipeline*: `bandit_feedback` as an `.npz` file without pickle.
- *VowpalWabbit*: one `--cb_explore_adf` example per answered entry, with propensity.
- *GRU4Rec* and *HRED*: sessions as a table of ids, or as lines of texts. Sessions are numbered;
  their ids are not written. The file has those with at least two different queries in a row,
  since one query has nothing after it to learn from.

A `Round` is an answered entry of the log: what was offered, how probable it was, and the outcome.
"""

import json
import zipfile
from array import array
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import groupby, islice
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from nextquery.arms import ArmPool
from nextquery.arms.remap import IdMap, LiveArm, lay_out, vector_of
from nextquery.catalogue.catalogue import Catalogue
from nextquery.errors import InvalidInput
from nextquery.learning import Rewards
from nextquery.service.log import events, schema
from nextquery.service.log.store import Store, StoredDecision, request_key


def added(store: Store, pool: ArmPool) -> Iterator[tuple[int, LiveArm]]:
    """Yield the arms that were added live, each with its id, and with vectors of the pool.

    A vector in the log may be of an earlier encoder; then the pool's encodes the text.
    """
    head = store.head().position
    models = ((event.position, event.body) for event in store.of_kind(events.ModelEvent.kind, head))
    reencoded_at = [
        at for at, body in models if isinstance(body, events.ModelEvent) and body.encoded_anew
    ]
    for event in store.of_kind(events.ArmAdded.kind, head):
        if isinstance(event.body, events.ArmAdded):
            arm, old = event.body, bool(reencoded_at) and event.position < reencoded_at[-1]
            row = vector_of(pool, arm.text) if old or not arm.vector else arm.row()
            yield arm.arm, LiveArm(arm.text, arm.shown, row)


def pool_by_id(store: Store, pool: ArmPool) -> ArmPool:
    """Return a pool under the ids that its rows have in a log."""
    model = store.model(store.head().model)
    if model is None or not model.runs:
        return pool
    layout = IdMap.of(model.runs, pool.rows_in_all)
    return lay_out(pool, layout, {id: arm for id, arm in added(store, pool) if id < layout.end})


def decision_of(store: Store, owner: str, query_id: str) -> StoredDecision | None:
    """Return the decision with this id, or else the one that was asked for with this request id."""
    found = store.decision(query_id)
    if found is None:
        key = request_key(owner, query_id)
        with store.reading() as connection:
            known = connection.execute(
                sa.select(schema.decisions.c.id).where(schema.decisions.c.request_key == key)
            ).scalar()
        found = None if known is None else store.decision(known)
    return found if found is not None and found.owner == owner else None


def decision_before(store: Store, decision: StoredDecision) -> StoredDecision | None:
    """Return the decision before this one in its session, or None."""
    earlier = sa.select(schema.decisions.c.id).where(
        schema.decisions.c.owner == decision.owner,
        schema.decisions.c.session_id == decision.session_id,
        schema.decisions.c.position < decision.position,
    )
    with store.reading() as connection:
        newest = earlier.order_by(schema.decisions.c.position.desc()).limit(1)
        known = connection.execute(newest).scalar()
    return None if known is None else store.decision(known)


_PAGE = 500


class Exported(NamedTuple):
    """A decision, and when one of its entries was clicked (None: never)."""

    decision: StoredDecision
    clicked: float | None


def write_ubi(store: Store, sink: BinaryIO) -> None:
    """Write queries and events as JSON Lines."""
    sink.writelines(ubi_lines(store))


def ubi_lines(store: Store) -> Iterator[bytes]:
    """Yield the lines of that file."""
    for page in pages(store):
        for exported in page:
            for record in ubi_records(exported):
                yield json.dumps(record, ensure_ascii=False).encode() + b"\n"


def ubi_records(exported: Exported) -> Iterator[dict[str, object]]:
    """Yield the query of a decision, an impression per entry shown, and the click, if any."""
    decision, body = exported.decision, exported.decision.body
    why = {
        "policy": body.policy,
        "model_version": body.model_version,
        "fallback": body.fallback,
        **({"segment": body.segment} if body.segment else {}),
    }
    who = {"client_id": decision.user_hash or ""}
    yield {
        "application": "nextquery",
        "query_id": decision.id,
        **who,
        "session_id": decision.session_id,
        "user_query": body.query,
        "timestamp": iso(decision.time),
        "query_response_id": decision.id,
        "query_response_hit_ids": [str(arm) for arm in body.arms],
        "query_attributes": why,
    }
    for ordinal, entry in enumerate(body.slate, start=1):
        event = {
            "application": "nextquery",
            "query_id": decision.id,
            "session_id": decision.session_id,
            **who,
            "user_id": decision.user_hash or "",
            "event_attributes": {
                "object": {
                    "object_id": str(entry.arm),
                    "object_id_field": "arm_id",
                    "description": entry.text,
                },
                "position": {"ordinal": ordinal},
                "score": entry.score,
                "propensity": entry.propensity,
                "propensity_estimated": entry.propensity_estimated,
                **({"source": events.PINNED} if entry.source == events.PINNED else {}),
                **why,
            },
        }
        if decision.state != "undelivered":
            yield {"action_name": "impression", "timestamp": iso(decision.time), **event}
        if exported.clicked is not None and entry.arm == decision.accepted:
            yield {"action_name": "click", "timestamp": iso(exported.clicked), **event}


def iso(seconds: float) -> str:
    """Format a time as ISO 8601 in UTC.

    >>> iso(0.25)
    '1970-01-01T00:00:00.250Z'
    """
    moment = datetime.fromtimestamp(seconds, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def pages(store: Store) -> Iterator[list[Exported]]:
    """Yield the decisions in order, a page at a time, with their clicks."""
    decisions = store.decisions(page=_PAGE)
    while page := list(islice(decisions, _PAGE)):
        times = clicks(store, [decision.id for decision in page if decision.state == "accepted"])
        yield [Exported(decision, times.get(decision.id)) for decision in page]


def clicks(store: Store, ids: list[str]) -> dict[str, float]:
    """When each accepted decision was clicked: its first feedback that names an arm."""
    feedback = (
        schema.events.c.kind == events.FeedbackEvent.kind,
        schema.events.c.decision_id.in_(ids),
    )
    rows = sa.select(schema.events).where(*feedback).order_by(schema.events.c.position)
    times: dict[str, float] = {}
    with store.reading() as connection:
        for row in connection.execute(rows):
            body = events.from_json(row.kind, row.body, row.position)
            if isinstance(body, events.FeedbackEvent) and body.accepted is not None:
                times.setdefault(row.decision_id, row.time)
    return times


class Round(NamedTuple):
    """One entry of a slate whose reward is known; `ordinal` counts from 0 at the top."""

    decision: StoredDecision
    ordinal: int
    entry: events.SlateEntry
    reward: int


def rounds(store: Store) -> Iterator[list[Round]]:
    """Yield the answered entries in the order of the log, a page of decisions at a time.

    If the next query is known, clicked or typed, every entry was answered; otherwise those that
    the learning rule takes as seen. What only one person asked is left out, and so is an entry
    without a propensity: neither can be offered to others, or weighed. Pins were drawn by nobody:
    they are left out, and so are slates whose pin was clicked.
    """
    for page in pages(store):
        found = [exported.decision for exported in page]
        rewards = _rewards(store, [decision.id for decision in found])
        known = _next_known(store, [decision.id for decision in found])
        yield [
            Round(decision, ordinal, entry, reward)
            for decision in found
            if not _clicked_a_pin(decision)
            for ordinal, (entry, reward) in enumerate(
                zip(
                    decision.body.slate,
                    answers(
                        rewards[decision.id], len(decision.body.slate), full=decision.id in known
                    ),
                    strict=True,
                )
            )
            if reward is not None and entry.arm >= 0 and 0.0 < entry.propensity <= 1.0
            if entry.source != events.PINNED
        ]


def _clicked_a_pin(decision: StoredDecision) -> bool:
    pins = {entry.arm for entry in decision.body.slate if entry.source == events.PINNED}
    return decision.accepted in pins


def answers(rewards: Rewards, length: int, *, full: bool) -> Rewards:
    """Return the reward of every entry of a slate, None where there is no answer.

    >>> answers([0, 1], 4, full=True), answers([0], 3, full=False)
    ([0, 1, 0, 0], [0, None, None])
    """
    below: Rewards = [0 if full else None] * (length - len(rewards))
    return [0 if full and reward is None else reward for reward in rewards] + below


def _rewards(store: Store, ids: Sequence[str]) -> dict[str, Rewards]:
    columns = sa.select(schema.decisions.c.id, schema.decisions.c.rewards).where(
        schema.decisions.c.id.in_(ids)
    )
    with store.reading() as connection:
        return {row.id: json.loads(row.rewards) for row in connection.execute(columns)}


def _next_known(store: Store, ids: Sequence[str]) -> set[str]:
    """Return the decisions whose next query is known."""
    feedback = (
        schema.events.c.kind == events.FeedbackEvent.kind,
        schema.events.c.decision_id.in_(ids),
    )
    rows = sa.select(
        schema.events.c.position, schema.events.c.decision_id, schema.events.c.body
    ).where(*feedback)
    known = set()
    with store.reading() as connection:
        for row in connection.execute(rows):
            body = events.from_json(events.FeedbackEvent.kind, row.body, row.position)
            if isinstance(body, events.FeedbackEvent) and (body.accepted is not None or body.full):
                known.add(row.decision_id)
    return known


_CHUNK = 4096  # rows of the context that are written together


def obp_pages(store: Store, sink: BinaryIO, catalogue: Catalogue) -> Iterator[None]:
    """Write a round per answered entry; the names are those of the dictionary.

    The context is the vector of the query, the action context that of the arm. Actions are
    numbered from 0; `arm_id` says which arms they are, and `decision` at which log position the
    round was decided. `position` counts from 0 at the top of the slate. The propensity is that of
    the entry given the entries above it. The vectors of queries go through a temporary file, so
    memory grows with the rounds by a few numbers each.
    """
    arms, rewards, ordinals, positions = array("q"), array("b"), array("i"), array("q")
    propensities, estimated, contexts = array("d"), array("b"), array("q")
    queries, last = 0, -1
    with TemporaryFile() as file:
        for page in rounds(store):
            for one in page:
                if one.decision.position != last:
                    last, queries = one.decision.position, queries + 1
                    vector = catalogue.place(one.decision.body.query).vector
                    file.write(np.ascontiguousarray(vector, np.float32).tobytes())
                arms.append(one.entry.arm)
                rewards.append(one.reward)
                ordinals.append(one.ordinal)
                positions.append(last)
                propensities.append(one.entry.propensity)
                estimated.append(one.entry.propensity_estimated)
                contexts.append(queries - 1)
            yield
        file.flush()
        arm_ids, actions = np.unique(np.asarray(arms, np.int64), return_inverse=True)
        parts: dict[str, Any] = {
            "n_rounds": np.int64(len(arms)),
            "n_actions": np.int64(len(arm_ids)),
            "action": actions.astype(np.int64),
            "position": np.asarray(ordinals, np.int64),
            "reward": np.asarray(rewards, np.float64),
            "pscore": np.asarray(propensities, np.float64),
            "pscore_estimated": np.asarray(estimated, np.bool_),
            "action_context": _vectors(store, catalogue, arm_ids),
            "arm_id": arm_ids,
            "decision": np.asarray(positions, np.int64),
        }
        with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as out:
            for name, values in parts.items():
                with out.open(f"{name}.npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, np.asarray(values), allow_pickle=False)
            with out.open("context.npy", "w", force_zip64=True) as member:
                shape = (len(arms), catalogue.pool.dim)
                header = {"descr": "<f4", "fortran_order": False, "shape": shape}
                np.lib.format.write_array_header_1_0(member, header)
                rows = np.asarray(contexts, np.int64)
                for start in range(0, len(rows), _CHUNK):
                    member.write(_rows_of(file, rows[start : start + _CHUNK], shape[1]))
                    yield


def _rows_of(file: Any, rows: NDArray[np.int64], dim: int) -> bytes:
    """Return the rows of a file of vectors, which come in order and lie near each other."""
    first, last = int(rows[0]), int(rows[-1])
    file.seek(first * dim * 4)
    read = np.frombuffer(file.read((last - first + 1) * dim * 4), "<f4").reshape(-1, dim)
    return bytes(read[rows - first].tobytes())


def _vectors(store: Store, catalogue: Catalogue, arms: NDArray[np.int64]) -> NDArray[np.float32]:
    """Return the vectors of arms, also of those that were added after the pool was made."""
    rows = catalogue.pool.rows_in_all
    vectors = np.zeros((len(arms), catalogue.pool.dim), np.float32)
    vectors[arms < rows] = catalogue.pool.rows(arms[arms < rows])
    if len(arms) and arms[-1] >= rows:
        places = {int(arm): at for at, arm in enumerate(arms) if arm >= rows}
        for id, arm in added(store, catalogue.pool):
            if id in places and arm.vector is not None:
                vectors[places[id]] = arm.vector
    return vectors


class SessionQuery(NamedTuple):
    """A query of a session; `arm` is None if it was no arm."""

    session: tuple[str, str]
    time: float
    arm: int | None
    text: str


class _Row(NamedTuple):
    session: tuple[str, str]
    position: int
    id: str
    time: float
    accepted: int | None
    body: events.DecisionEvent


def gru4rec_pages(store: Store, sink: BinaryIO) -> Iterator[None]:
    """Write `SessionId`, `ItemId` and `Time`, tab separated; an item is an arm."""
    sink.write(b"SessionId\tItemId\tTime\n")
    number = 0
    for session in sessions(store):
        arms = without_repeats([one for one in session if one.arm is not None and one.arm >= 0])
        if len(arms) > 1:
            number += 1
            sink.writelines(f"{number}\t{one.arm}\t{one.time:.3f}\n".encode() for one in arms)
        yield


def hred_pages(store: Store, sink: BinaryIO) -> Iterator[None]:
    """Write the queries of one session per line, tab separated."""
    for session in sessions(store):
        texts = [" ".join(one.text.split()) for one in without_repeats(session)]
        if len(texts) > 1:
            sink.write("\t".join(texts).encode() + b"\n")
        yield


def without_repeats(session: list[SessionQuery]) -> list[SessionQuery]:
    """Return the queries that differ from the one before: a page that loads again asks again."""
    kept: list[SessionQuery] = []
    for one in session:
        if not kept or (one.arm, one.text.split()) != (kept[-1].arm, kept[-1].text.split()):
            kept.append(one)
    return kept


def sessions(store: Store) -> Iterator[list[SessionQuery]]:
    """Yield the queries of each session in order, one page of decisions in memory at a time.

    A recommendation that was clicked is a query of the session too, even if no request followed.
    """
    for _, queries in groupby(_asked(store), key=lambda one: one.session):
        yield [one for one in queries if one.text.strip()]


def _asked(store: Store) -> Iterator[SessionQuery]:
    before: _Row | None = None
    clicked: float | None = None
    for row, time in _decisions(store):
        goes_on = before is not None and before.session == row.session
        if before is not None and not (goes_on and before.accepted == row.body.anchor_arm):
            yield from _click(before, clicked)
        yield SessionQuery(row.session, row.time, row.body.anchor_arm, row.body.query)
        before, clicked = row, time
    if before is not None:
        yield from _click(before, clicked)


def _click(row: _Row, time: float | None) -> Iterator[SessionQuery]:
    """Yield the recommendation that was clicked, as a query."""
    for entry in row.body.slate:
        if row.accepted is not None and entry.arm == row.accepted:
            yield SessionQuery(
                row.session, row.time if time is None else time, entry.arm, entry.text
            )


def _decisions(store: Store) -> Iterator[tuple[_Row, float | None]]:
    """Yield all decisions by session and position, each with the time of its click."""
    order = (schema.decisions.c.owner, schema.decisions.c.session_id, schema.decisions.c.position)
    columns = (
        *order,
        schema.decisions.c.id,
        schema.decisions.c.time,
        schema.decisions.c.accepted,
        schema.events.c.body,
    )
    found = sa.select(*columns).join(
        schema.events,
        sa.and_(
            schema.events.c.position == schema.decisions.c.position,
            schema.events.c.kind == events.DecisionEvent.kind,
        ),
    )
    after: tuple[str, str, int] | None = None
    while True:
        asked = found if after is None else found.where(sa.tuple_(*order) > sa.tuple_(*after))
        with store.reading() as connection:
            rows = connection.execute(asked.order_by(*order).limit(_PAGE)).all()
        times = clicks(store, [row.id for row in rows if row.accepted is not None])
        for row in rows:
            body = events.from_json(events.DecisionEvent.kind, row.body, row.position)
            assert isinstance(body, events.DecisionEvent)
            session = (row.owner, row.session_id)
            kept = _Row(session, row.position, row.id, row.time, row.accepted, body)
            yield kept, times.get(row.id)
        if len(rows) < _PAGE:
            return
        after = (rows[-1].owner, rows[-1].session_id, rows[-1].position)


def vw_pages(store: Store, sink: BinaryIO) -> Iterator[None]:
    """Write the examples page by page."""
    for page in rounds(store):
        sink.writelines(example(one).encode() for one in page)
        yield


def example(one: Round) -> str:
    """Return an entry as an example: cost −reward, and the propensity given the entries above.

    Its actions are the entries from its place down, in order of their arms, so that the place of
    the chosen one says nothing. Candidates that were not shown are not in the log. Namespaces: `q`
    the words of the query, `a` those of the action, `n` its similarity, `x` the policy's features.
    """
    left = [entry for entry in one.decision.body.slate[one.ordinal :] if entry.arm >= 0]
    actions = "".join(
        _action(entry, _label(one) if entry is one.entry else "")
        for entry in sorted(left, key=lambda entry: entry.arm)
    )
    return f"shared |q {words(one.decision.body.query)}\n{actions}\n"


def _label(one: Round) -> str:
    return f"0:{-one.reward}:{one.entry.propensity:.9g} "


def _action(entry: events.SlateEntry, label: str) -> str:
    numbers = " ".join(
        f"{at}:{value:.6g}" for at, value in enumerate(entry.features) if value != 0.0
    )
    return f"{label}|a {words(entry.text)} |n similarity:{entry.similarity:.6g} |x {numbers}\n"


def words(text: str) -> str:
    """Return the words of a text without the characters that mean something to VW.

    >>> words("c++ a:b | x")
    'c++ a_b _ x'
    """
    return " ".join(text.replace(":", "_").replace("|", "_").split())


_PIECE = 1 << 16
_COLUMNS = {
    "position": "BIGINT",
    "decision_id": "VARCHAR",
    "time": "TIMESTAMPTZ",
    "session_id": "VARCHAR",
    "user_hash": "VARCHAR",
    "query": "VARCHAR",
    "policy": "VARCHAR",
    "model_version": "BIGINT",
    "fallback": "BOOLEAN",
    "state": "VARCHAR",
    "ordinal": "INTEGER",
    "arm_id": "BIGINT",
    "text": "VARCHAR",
    "score": "DOUBLE",
    "propensity": "DOUBLE",
    "propensity_estimated": "BOOLEAN",
    "source": "VARCHAR",
    "accepted": "BOOLEAN",
    "clicked": "TIMESTAMPTZ",
}


def write_parquet(store: Store, sink: BinaryIO) -> None:
    """Write one row per entry of every decision, in the order of the log."""
    deque(parquet_pages(store, sink), maxlen=0)


def parquet_pages(store: Store, sink: BinaryIO) -> Iterator[None]:
    """Write that file page by page, so that a caller can do other things in between.

    The rows go through a temporary file, which DuckDB converts: its memory does not grow with the
    log, and no other package is needed.
    """
    with TemporaryDirectory(prefix="nextquery-export-") as folder:
        rows, out = Path(folder) / "rows.jsonl", Path(folder) / "rows.parquet"
        with rows.open("w", encoding="utf-8") as file:
            for page in pages(store):
                for exported in page:
                    file.writelines(f"{json.dumps(row)}\n" for row in entry_rows(exported))
                yield
        _convert(rows, out)
        with out.open("rb") as finished:
            while piece := finished.read(_PIECE):
                sink.write(piece)
                yield


def _convert(rows: Path, out: Path) -> None:
    import duckdb  # slow to import

    with duckdb.connect() as connection:
        connection.execute("SET temp_directory = ?", [str(out.parent)])
        read = "read_json($rows, format = 'newline_delimited', columns = $columns)"
        connection.execute(
            f"COPY (SELECT * FROM {read}) TO '{out}' (FORMAT parquet, COMPRESSION zstd)",
            {"rows": str(rows), "columns": _COLUMNS},
        )


def entry_rows(exported: Exported) -> Iterator[dict[str, object]]:
    """Yield the entries of a decision as flat rows."""
    decision, body = exported.decision, exported.decision.body
    for ordinal, entry in enumerate(body.slate, start=1):
        accepted = entry.arm == decision.accepted
        yield {
            "position": decision.position,
            "decision_id": decision.id,
            "time": _moment(decision.time),
            "session_id": decision.session_id,
            "user_hash": decision.user_hash,
            "query": body.query,
            "policy": body.policy,
            "model_version": body.model_version,
            "fallback": body.fallback,
            "state": decision.state,
            "ordinal": ordinal,
            "arm_id": entry.arm,
            "text": entry.text,
            "score": entry.score,
            "propensity": entry.propensity,
            "propensity_estimated": entry.propensity_estimated,
            "source": entry.source,
            "accepted": accepted,
            "clicked": _moment(exported.clicked)
            if accepted and exported.clicked is not None
            else None,
        }


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds")


_LINES = 64  # lines that are written together


class Format(NamedTuple):
    """How to write a format, step by step; `file` is the name of a download."""

    about: str
    file: str
    media_type: str
    pages: Callable[[Store, BinaryIO], Iterator[None]] | None  #: None: needs the pool


def _ubi_pages(store: Store, sink: BinaryIO) -> Iterator[None]:
    lines = ubi_lines(store)
    while group := b"".join(islice(lines, _LINES)):
        sink.write(group)
        yield


FORMATS = {
    "ubi": Format(
        "UBI 1.3, JSON Lines: a query per decision, impressions, clicks",
        "nextquery.ubi.jsonl",
        "application/x-ndjson",
        _ubi_pages,
    ),
    "parquet": Format(
        "one row per entry of a slate",
        "nextquery.parquet",
        "application/vnd.apache.parquet",
        parquet_pages,
    ),
    "obp": Format(
        "Open Bandit Pipeline's bandit_feedback, needs --pool",
        "nextquery.obp.npz",
        "application/octet-stream",
        None,
    ),
    "vw": Format(
        "VowpalWabbit, cb_explore_adf with propensities",
        "nextquery.vw.txt",
        "text/plain; charset=utf-8",
        vw_pages,
    ),
    "gru4rec": Format(
        "GRU4Rec's table of sessions of arms",
        "nextquery.gru4rec.tsv",
        "text/tab-separated-values; charset=utf-8",
        gru4rec_pages,
    ),
    "hred": Format(
        "HRED's sessions, one per line, with the texts of queries",
        "nextquery.hred.txt",
        "text/plain; charset=utf-8",
        hred_pages,
    ),
}


def export_pages(
    name: str, store: Store, sink: BinaryIO, catalogue: Catalogue | None = None
) -> Iterator[None]:
    """Write a format of `FORMATS` step by step, so that a caller can do other things in between."""
    pages = FORMATS[name].pages
    if pages is not None:
        return pages(store, sink)
    if catalogue is None:
        raise InvalidInput(
            f"the format {name} has the vectors of queries, which are not in the store. Pass the "
            "pool: --pool POOL."
        )
    return obp_pages(store, sink, catalogue)
