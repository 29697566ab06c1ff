"""What was offered, foreseen and wasted, against brute force over any order of feedback."""

from contextlib import suppress
from typing import Any

import numpy as np
import pytest

from nextquery.errors import Conflict
from nextquery.service.log.store import Store
from nextquery.service.maintain.repair import rebuild
from nextquery.service.model.learner import newest_state, rebuilt, save_snapshot
from nextquery.service.model.statistics import Statistics
from tests.service.conftest import Start
from tests.service.worlds import TEXTS, caught_up, close_open

TYPED = ("", *TEXTS[:14], "nobody ever asked this", "nor this")  # "": nothing was typed


class Known:
    """One decision: its slate, and the next query as far as feedback has told it."""

    def __init__(self, slate: dict[int, str]) -> None:
        self.slate, self.clicked, self.typed = slate, "", ""

    def told(self, accepted: int | None, typed: str) -> None:
        """The first click counts; without one, the first query that was typed."""
        if accepted is not None:
            self.clicked = self.clicked or self.slate[accepted]
        elif not self.clicked:
            self.typed = self.typed or typed

    @property
    def next(self) -> str:
        return self.clicked or self.typed


@pytest.mark.parametrize(("learn_issued", "at_least"), [(True, 0.0), (False, 0.05)])
def test_every_order_of_feedback_counts_a_decision_once(
    sqlite: Store, start: Start, learn_issued: bool, at_least: float
) -> None:
    engine = start(sqlite, learn_issued=learn_issued, exploration=0.2)
    rng, decisions = np.random.default_rng(5), dict[str, Known]()
    for step in range(120):
        if step % 4 == 0:
            query = TEXTS[int(rng.integers(14))]
            least = 1.0 if at_least and step % 12 == 0 else at_least  # nothing is as sure as that
            made = engine.recommend(session_id=f"s{step}", query=query, m=4, at_least=least)
            slate = {entry.arm: entry.text.lower() for entry in made.recommendations}
            decisions[made.decision_id] = Known(slate)
            engine.delivered(made.decision_id)
        if step % 30 == 29:
            close_open(engine)
        name = list(decisions)[int(rng.integers(max(0, len(decisions) - 5), len(decisions)))]
        known, typed = decisions[name], str(rng.choice(TYPED))
        accepted = None
        if known.slate and rng.random() < 0.4:
            accepted = list(known.slate)[int(rng.integers(len(known.slate)))]
        with suppress(Conflict):  # another entry was clicked before
            engine.feedback(decision_id=name, accepted=accepted, issued=typed or None)
            known.told(accepted, typed)
    totals = caught_up(engine).stats()["totals"]
    answered = [known for known in decisions.values() if known.next]
    offered = sum(len(known.slate) for known in answered)
    foreseen = sum(known.next in known.slate.values() for known in answered)
    assert totals["next_queries_known"] == len(answered) > 20
    assert totals["offered"] == offered > foreseen == totals["foreseen"] > 5
    assert totals["share_wasted"] == pytest.approx((offered - foreseen) / offered)
    assert (min(len(known.slate) for known in answered) == 0) == (at_least > 0)
    stats = engine.stats()
    assert stats["coverage"]["share_of_next_queries_shown"] == foreseen / len(answered)
    rows: list[Any] = stats["rows"]
    assert sum(row["offered"] for row in rows) == offered
    assert rebuild(sqlite).agrees


def test_who_offers_nothing_wastes_nothing() -> None:
    stats = Statistics()
    stats.followed("mute", 0.0, offered=0, foreseen=False)
    assert stats.totals()["share_wasted"] is None  # there is nothing to have a share of
    stats.followed("one", 0.0, offered=1, foreseen=True)
    assert stats.totals()["share_wasted"] == 0.0
    again = Statistics.from_state(stats.state())
    assert again.totals() == stats.totals()
    assert [row["policy"] for row in again.table("hour")] == ["mute", "one"]


def test_a_snapshot_that_did_not_count_offers_is_read_from_the_log_again(
    sqlite: Store, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = start(sqlite)
    decision = engine.recommend(session_id="s", query=TEXTS[0])
    accepted = decision.recommendations[0].arm
    engine.feedback(decision_id=decision.decision_id, accepted=accepted)
    engine.close()
    state = rebuilt(sqlite)
    before = state.arrays()
    old = {name: array for name, array in before.items() if "next_queries" not in name}
    with monkeypatch.context() as patch:
        patch.setattr(type(state), "arrays", lambda self: old)
        save_snapshot(sqlite, state, keep=1)
    assert newest_state(sqlite).position == 0
    totals = start(sqlite).stats()["totals"]
    assert (totals["offered"], totals["foreseen"]) == (len(decision.recommendations), 1)
