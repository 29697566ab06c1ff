"""Whatever happens in a day, nobody sees a text that fewer than `min_users` people typed.

A day is a list of random steps: users under several spellings of their ids and under placeholders,
in sessions that they share or not, of two owners. The rule is computed a second time here, by
brute force, and a stranger then looks for the texts through every endpoint below admin.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

import nextquery as nq
from nextquery.service.engine.engine import Engine
from nextquery.service.http.app import create_app
from nextquery.service.http.documentation import is_built
from nextquery.service.http.keys import KeyRing
from nextquery.service.http.responses import ADMIN, NEEDED
from nextquery.service.log.store import Store
from nextquery.service.settings import Settings
from tests.few_examples import few
from tests.service.http.conftest import LOCAL
from tests.service.worlds import TEXTS, TwoUserRule, caught_up, new_log, options, rarely

SECRETS = ("cats club food", "cats care price", "stocks history kids")
PEOPLE: dict[str | None, str | None] = {
    **dict.fromkeys(["u1", " U1", "\uff551", "u\u200b1 "], "u1"),
    **{"u2": "u2", "u3": "u3"},
    **dict.fromkeys(["null", "-", "Anonymous", " ", None]),
}
BODY = {"session_id": "s", "query": TEXTS[0]}
DOCS = "/docs/{file:path}"  # without the built site, a 404 that says how to build it
LOOKS: dict[str, Any] = {  # every endpoint below admin, as a stranger would ask it
    "/v1/recommend": {**BODY, "m": 50, "explain": True},
    "/v1/feedback": {"decision_id": "unknown", "accepted": None},
    "/v1/forecast": {**BODY, "m": 50},
    "/v1/map": BODY,
    "/v1/explore": {"seed": 0},  # no table is served here
    "/v1/simulate": {"users": 1},
    "/v1/ubi/events": [{"query_id": "ubi", "user_query": TEXTS[0], "session_id": "s"}],
    **dict.fromkeys(("/v1/examples", "/v1/stats", "/v1/experiment", "/metrics", "/openapi.json")),
    **dict.fromkeys(("/healthz", "/readyz", "/", "/page/{file}", "/client.js", "/api")),
    **dict.fromkeys(("/docs", DOCS)),
}
QUIET = {"/v1/simulate"}  # a population of its own, which no event of the log reaches


class Step(NamedTuple):
    """Somebody types a text: as a query, or instead of what the session was shown last."""

    owner: str
    session: str
    user: str | None
    text: str
    instead: bool


STEPS = st.lists(
    st.builds(
        Step,
        st.sampled_from(["", "shop"]),
        st.sampled_from("abcd"),
        st.sampled_from(list(PEOPLE)),
        st.sampled_from(SECRETS),
        st.booleans(),
    ),
    min_size=4,
    max_size=14,
)


@contextmanager
def serving(pool: nq.ArmPool, min_users: int) -> Iterator[tuple[Engine, TestClient]]:
    """An engine, and its application as a stranger with a write key sees it."""
    with TemporaryDirectory() as folder:
        store = Store.open(new_log(Path(folder) / "events.db"))
        chosen = options(k=80, min_users=min_users, gather_ms=0.0)
        ring = KeyRing(store)
        bearer = {"Authorization": f"Bearer {ring.create(name='stranger', scope='write')[1]}"}
        with Engine.start(pool, store, chosen) as engine:
            app = create_app(engine, Settings(keys="on", rate_limit="none"), keys=ring)
            yield engine, TestClient(app, base_url=LOCAL, headers=bearer)
        store.close()


def take(engine: Engine, step: Step) -> list[str]:
    """Take a step; return the texts that its user was shown."""
    where: dict[str, Any] = {"session_id": step.session, "owner": step.owner}
    if not step.instead:
        decision = engine.recommend(query=step.text, user_id=step.user, m=50, **where)
        return [entry.text for entry in decision.recommendations]
    decision = engine.recommend(query=TEXTS[3], m=50, **where)
    engine.feedback(
        decision_id=decision.decision_id,
        accepted=None,
        issued=step.text,
        user_id=step.user,
        owner=step.owner,
    )
    return [entry.text for entry in decision.recommendations]


def seen_by(client: TestClient, paths: Iterable[str]) -> set[str]:
    """The secrets that a stranger finds through some endpoints."""
    found = set()
    for path in paths:
        body, url = LOOKS[path], path.replace("{file}", "app.js").replace("{file:path}", "")
        response = client.get(url) if body is None else client.post(url, json=body)
        missing = path in ("/v1/feedback", "/v1/explore") or (
            path.startswith("/docs") and not is_built()
        )
        assert response.status_code == (404 if missing else 200), path
        found |= {text for text in SECRETS if text in response.text.lower()}
    return found


def test_the_stranger_looks_everywhere() -> None:
    assert set(LOOKS) == {path for path, scope in NEEDED.items() if scope != ADMIN}


@pytest.mark.parametrize("min_users", [3, *rarely(2)])
@settings(
    max_examples=few(4), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(steps=STEPS)
def test_a_text_of_too_few_people_is_shown_to_nobody(
    world: nq.ArmPool, min_users: int, steps: list[Step]
) -> None:
    rule = TwoUserRule(min_users)
    with serving(world, min_users) as (engine, client):
        for step in steps:
            shown = {text for text in take(engine, step) if text in SECRETS}
            assert shown <= rule.public
            user = PEOPLE[step.user]
            if user is not None:
                rule.met(user, (step.owner, step.session))
                rule.types(user, step.text)
            caught_up(engine)
        shown = seen_by(client, LOOKS.keys() - QUIET)
        assert shown == rule.public  # no more; and no less, so the search is a real one


def test_nor_is_it_in_a_simulation(world: nq.ArmPool) -> None:
    with serving(world, 2) as (engine, client):
        for user in ("u1", "u2"):
            take(engine, Step("", user, user, SECRETS[0], False))
        take(engine, Step("", "u1", "u1", SECRETS[1], False))
        caught_up(engine)
        assert seen_by(client, ["/v1/recommend"]) == {SECRETS[0]}
        assert seen_by(client, QUIET) == set()
