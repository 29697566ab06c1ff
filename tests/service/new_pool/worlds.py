"""A service whose pool grows: a log cut in two, an engine, and what must be equal."""

from pathlib import Path
from typing import Any

import nextquery as nq
from nextquery.arms.pool import fingerprint
from nextquery.build.ingest import ingest
from nextquery.build.reencode import reencode
from nextquery.build.update import update
from nextquery.encode import LsaEncoder
from nextquery.service.engine.engine import Engine
from nextquery.service.log.store import Store
from nextquery.service.model.experiments import policies_of
from nextquery.service.settings import EngineOptions
from tests.build.updating.logs import OPTIONS, SECRET, WORDS, Row, random_rows, saved_encoder, write
from tests.service.worlds import options, until

ROWS = random_rows(5, 160)
CUT = 120
PAIRS = [f"{a} {b}" for a in WORDS for b in WORDS if a != b]
NEW = "cat red bird"  # a query that no log has


def following(**changes: Any) -> EngineOptions:
    """Options of an engine that follows its pool at once."""
    return options(**{"pool_check_s": 0.05, "user_hash_secret": SECRET, "min_hits": 0, **changes})


def ingested(folder: Path, rows: list[Row]) -> nq.ArmPool:
    """Make a pool of rows."""
    encoder = str(folder / "encoder")
    if not (folder / "encoder").exists():
        saved_encoder(folder / "encoder")
    log = write(folder / "first.csv", rows)
    return ingest(log, folder / "pool", OPTIONS, encoder=encoder, secret=SECRET).pool


def grow(
    folder: Path, start: int = CUT, end: int = len(ROWS), *, rows: list[Row] | None = None
) -> nq.ArmPool:
    """Add days to the pool."""
    log = write(folder / "more.csv", ROWS[start:end] if rows is None else rows)
    return update(log, folder / "pool", secret=SECRET).pool


def encoded_anew(folder: Path) -> nq.ArmPool:
    """Encode the pool anew, with vectors of another length."""
    LsaEncoder(dim=6).fit([*PAIRS, *WORDS]).save(folder / "other")
    done = reencode(folder / "pool", str(folder / "other"))
    assert done.unplaced == 0
    return done.pool


def lessons(engine: Engine, policy: str | None = None) -> int:
    """Return how much a policy learnt live, in the model in force and those that it continues."""
    engine.learner.catch_up()
    state = engine.learner.state
    bases, branches = policies_of(engine.learner.model(state.model)), state.branches()
    name = next(iter(branches)) if policy is None else policy
    return branches[name].policy.updates_since(bases[name])


def typed(engine: Engine, query: str, *, users: int = 2) -> int:
    """Let people type a query until it is an arm, and return the arm."""
    for number in range(users):
        engine.recommend(
            session_id=f"{query} {number}", query=query, user_id=f"{query} user {number}"
        )
    engine.learner.catch_up()
    arm = engine.catalogue.find_exactly(query)
    assert arm is not None
    return arm


def clicks(engine: Engine, number: int = 12, *, sessions: int = 4) -> None:
    """Teach the model."""
    for at in range(number):
        made = engine.recommend(session_id=f"s{at % sessions}", query=PAIRS[at % len(PAIRS)], m=3)
        engine.delivered(made.decision_id)
        arms = [one.arm for one in made.recommendations]
        engine.feedback(decision_id=made.decision_id, accepted=arms[at % 3] if arms else None)
    engine.learner.catch_up()


def serves(engine: Engine, pool: nq.ArmPool) -> bool:
    """Wait until an engine serves a pool."""
    digest = fingerprint(pool)
    return until(lambda: engine.catalogue.digest == digest and engine.answerer.ready.is_set())


def answers(engine: Engine) -> dict[str, Any]:
    """Return what an engine would say, without writing anything."""
    found: dict[str, Any] = {}
    for query in [*PAIRS, NEW, "blue"]:
        likely = engine.forecast(session_id="nobody", query=query, m=8)
        found[query] = [(one.arm, one.text, one.probability) for one in likely.likely]
    pool = engine.catalogue.pool
    found["arms"] = [
        (arm, pool.texts[arm], engine.catalogue.shown(arm), pool.row(arm).tobytes())
        for arm in pool.live(range(len(pool))).tolist()
    ]
    found["hidden"] = engine.catalogue.hidden_arms().tolist()
    found["next"] = pool.rows_in_all
    return found


def restarted(folder: Path, url: str, chosen: EngineOptions) -> dict[str, Any]:
    """Return the answers of a service that is started with the pool as it is now."""
    store = Store.open(url)
    try:
        with Engine.start(nq.ArmPool.open(folder / "pool"), store, chosen) as engine:
            return answers(engine)
    finally:
        store.close()
