"""A policy that did not run learns from a log what the library teaches it by hand."""

from pathlib import Path

import numpy as np
import pytest

import nextquery as nq
from nextquery.service.evaluate import Reading, Span, Target, of_model
from nextquery.service.log.store import Store
from nextquery.service.model.experiments import policy_of
from nextquery.service.model.prepare import first_model
from tests.service.conftest import Start
from tests.service.worlds import TEXTS, options


def read(store: Store, pool: nq.ArmPool, name: str) -> Target:
    """Return a policy after it has read the whole log."""
    head = store.head()
    newest = store.model(head.model)
    assert newest is not None
    chosen = of_model(options(), newest.settings)
    nothing = lambda stage, done: None  # noqa: E731
    reading = Reading(store, pool, [name], chosen, Span(), newest.settings, nothing)
    reading.run(head.position)
    return reading.targets[0]


@pytest.mark.parametrize("name", ["lin-ucb-shared", "lin-ucb", "lin-ts-interaction"])
def test_a_policy_with_other_candidates(
    name: str, tmp_path: Path, start: Start, world: nq.ArmPool
) -> None:
    """The log is that of a policy with a memory, so it shows what this one could not."""
    store = Store.open(f"sqlite:///{tmp_path / 'log.db'}")
    engine, rng = start(store, exploration=0.5, k=4), np.random.default_rng(4)
    by_hand = policy_of(first_model(world, options(policy=name, k=4)))
    strangers = 0
    for number in range(40):
        query, typed = (int(one) for one in rng.integers(len(TEXTS), size=2))
        decision = engine.recommend(session_id=f"s{number}", query=TEXTS[query], m=3)
        arms = [one.arm for one in decision.recommendations]
        vector = world.vectors[query]
        candidates = nq.MaxUtility(k=4).select(world, vector, exclude=[query])
        context, at = nq.Context(vector), engine.clock.now()
        failures = by_hand.failures(candidates, context)
        choice = by_hand.as_choice(candidates, context, arms[0])
        strangers += choice is None
        if number % 4 == 3:  # nothing is known but that the first was not clicked
            engine.feedback(decision_id=decision.decision_id, accepted=None)
            if choice is not None:
                by_hand.update(choice, 0.0, at=at)
            continue
        following = arms[number % 2] if number % 4 else typed
        if number % 4:
            engine.feedback(decision_id=decision.decision_id, accepted=following)
        else:
            text = TEXTS[following]
            engine.feedback(decision_id=decision.decision_id, accepted=None, issued=text)
        by_hand.observe(failures, by_hand.as_choice(candidates, context, following), at=at)
    assert strangers > 3
    target = read(store, world, name)
    store.close()
    assert target.policy.updates_since(by_hand) == 0
    ours, theirs = target.policy.state(), by_hand.state()
    for part in ours.keys() - {"generator", "params"}:
        np.testing.assert_allclose(ours[part], theirs[part], atol=1e-9)
    assert target._lessons == {}  # nothing is kept for longer than the log needs it
