"""What a person's own memory and the weights of matching sessions cost per request.

``python -m benchmarks.memory_cost`` makes a random pool, a log with head queries, and a person with
2,000 queries in the log and 500 private ones since. All contestants take turns; medians are
printed.
"""

import statistics
import sys
import time
from collections.abc import Callable, Mapping

import numpy as np

import nextquery as nq
from benchmarks.random_pool import random_pool
from nextquery.loop import SessionState
from nextquery.memory import Mentions, Moment
from nextquery.memory.past import NEAR
from nextquery.policies.registry import SERVED
from nextquery.service.log.events import (
    SELECTION,
    DecisionEvent,
    OwnAsked,
    SlateEntry,
    bytes_text,
    to_json,
    vector_text,
)

ARMS, DIM = 1_120_461, 128  # the pool of the paper
SESSIONS, IN_LOG, PRIVATE, LIVE = 200_000, 2_000, 500, 20_000
HISTORY = tuple(range(8, 0, -1))  # head queries, the commonest last
NOW, DAY, PERSON = 1.7e9, 86_400.0, "a" * 64


def head_log(arms: int, sessions: int) -> nq.Sessions:
    """Return sessions of five queries with the frequencies of Zipf's law.

    Person 0 asked 2,000 of them, all distinct.
    """
    rng = np.random.default_rng(0)
    row = (rng.zipf(1.3, size=5 * sessions) % arms).astype(np.int64)
    times = np.sort(rng.uniform(NOW - 90 * DAY, NOW - DAY, sessions))
    asked = (times[:, None] + np.arange(5) * 30.0).ravel()
    people = np.full(sessions, -1)
    people[rng.choice(sessions, IN_LOG // 5, replace=False)] = 0
    row[np.repeat(people, 5) == 0] = rng.choice(arms, IN_LOG, replace=False)
    return nq.Sessions(row, np.arange(0, 5 * sessions + 1, 5), times, asked, people)


def recommender(arms: int, sessions: int) -> nq.Recommender:
    """Return a recommender whose person has the largest own memory there is."""
    memory, rng = nq.Memory(head_log(arms, sessions), names=[PERSON]), np.random.default_rng(1)
    history: list[int] = []
    for at, arm in enumerate((rng.zipf(1.3, size=LIVE) % arms).tolist()):
        history = history[-4:] if at % 5 else []
        memory.add(arm, history, NOW - DAY + at)
        history.append(arm)
    for at, row in enumerate(rng.standard_normal((PRIVATE, DIM), np.float32)):
        vector, first = row / np.linalg.norm(row), at % 5 == 0
        after = None if first else f"only mine {at - 1}"
        memory.people.add(PERSON, f"only mine {at}", time=NOW - at, vector=vector, after=after)
    pool = random_pool(arms, DIM)
    return nq.Recommender(
        pool, nq.MaxUtility(k=250), nq.policy(SERVED), memory=memory, clock=lambda: NOW
    )


def medians(contestants: Mapping[str, Callable[[], object]], turns: int = 200) -> dict[str, float]:
    """Run all contestants in turn. Returns the median time of each, in milliseconds."""
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(turns):
        for name, contestant in contestants.items():
            start = time.perf_counter()
            contestant()
            times[name].append(1e3 * (time.perf_counter() - start))
    return {name: statistics.median(row) for name, row in times.items()}


def stan_alone(memory: nq.Memory) -> Callable[[], object]:
    """Return what STAN adds to a recall: weights of the session's queries, products and sums."""
    parts = [
        memory.past.mentions(HISTORY, len(memory.past), most=300, earlier=50),
        memory.live.mentions(HISTORY, most=300, earlier=50),
    ]
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    arms, place = np.unique(columns[0], return_inverse=True)
    steps = np.where(columns[4] > 0, 1, -1) * np.rint(1 / columns[1]).astype(np.int64)
    query, window = np.zeros(len(steps), np.int64), np.full(len(steps), NEAR)
    none = np.zeros(len(steps), bool)

    def run() -> None:
        weights = memory._weights(list(HISTORY), Moment(NOW), len(memory.past))
        found = Mentions.of(
            columns[0], steps, follows=none, longer=none, match=weights[query], window=window
        )
        np.bincount(place, found.forward, len(arms))
        np.bincount(place, found.backward, len(arms))

    return run


def event_bytes(rec: nq.Recommender) -> dict[str, int]:
    """Return the size of a decision in the log: without a person, and of an arm and a new text."""
    place, rng = rec.place("1"), np.random.default_rng(0)
    slate = rec.rank(
        place, SessionState(), rec.select([place], [SessionState()])[0], 5, rng, Moment(NOW)
    )
    entries = tuple(
        SlateEntry(
            choice.arm,
            rec.text_of(choice.arm, slate.candidates),
            choice.score,
            choice.propensity,
            choice.propensity_estimated,
            0.5,
            0.5,
            tuple(np.asarray(choice.features, float).tolist()),
            SELECTION,
        )
        for choice in slate.choices
    )

    def size(own: OwnAsked | None) -> int:
        event = DecisionEvent(
            query="1",
            m=5,
            anchor_arm=1,
            history=HISTORY,
            seen=(),
            slate=entries,
            policy=SERVED,
            model=1,
            model_version=1,
            fallback=False,
            failures=bytes_text(slate.failures),
            own=own,
        )
        return len(to_json(event).encode())

    vector = vector_text(place.vector)
    return {
        "nobody's": size(None),
        "a person's, of an arm": size(OwnAsked(person=PERSON, after_arm=2)),
        "a person's, of a new text": size(
            OwnAsked(person=PERSON, text="only mine 1", vector=vector, after_text="only mine 2")
        ),
    }


def main(arms: int = ARMS, sessions: int = SESSIONS, turns: int = 200) -> None:
    rec = recommender(arms, sessions)
    memory, own_id, at = rec.memory, rec.catalogue.own_id, Moment(NOW)
    current = int(HISTORY[-1])
    place, me, nobody = (
        rec.place(str(current)),
        SessionState(HISTORY[:-1], (), 7, PERSON),
        SessionState(HISTORY),
    )
    selected = rec.select([place], [SessionState()])[0]

    def own() -> object:
        return memory.own(PERSON, current, at=at, own_id=own_id)

    def own_of_somebody_new() -> object:
        memory.own_log._read.cache_clear()
        return own()

    def own_after_a_change() -> object:
        rec.catalogue.block_text("something")
        return own()

    found = memory.own(PERSON, current, at=at, own_id=own_id)
    print(f"{arms:,} arms, {len(memory.past):,} queries in the log, head query", end=" ")
    print(f"{int(memory.past.support(np.array([current]), len(memory.past))[0]):,} times,", end=" ")
    print(f"{len(found.ids)} own queries recalled, {len(found.texts)} of them private")
    print("| contestant | median, ms |\n|---|---:|")
    contestants = {
        "own memory": own,
        "own memory, of somebody who was not here lately": own_of_somebody_new,
        "own memory, first time after the arms changed": own_after_a_change,
        "recall from all sessions": lambda: memory.recall(HISTORY, at=at),
        "of it, the weights of STAN": stan_alone(memory),
        "all candidates, without a person": lambda: rec.candidates(place, nobody, selected, at=at),
        "all candidates, with own memory": lambda: rec.candidates(place, me, selected, at=at),
    }
    for name, milliseconds in medians(contestants, turns).items():
        print(f"| {name} | {milliseconds:.3f} |")
    print("\n| decision in the event log | bytes |\n|---|---:|")
    for name, size in event_bytes(rec).items():
        print(f"| {name} | {size:,} |")


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
