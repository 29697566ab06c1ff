"""Do our session recommenders agree with those of session-rec, on the same synthetic log?

    git clone https://github.com/rn5l/session-rec CHECKOUT
    python -m benchmarks.session_rec CHECKOUT

session-rec is the code of Ludewig and Jannach's evaluations. Nothing of it is in this repository:
it is imported from CHECKOUT, with pandas. A simulated population (`nextquery.datasets.simulated`)
writes a log; both sides learn the first sessions and rank 20 queries at every step of the others.
A list agrees by the share of its queries that the other list has; queries that score the same as
the last of the other list count as agreed, since ties may be cut anywhere.

Of equally similar neighbours, session-rec takes those that a Python set yields first, and ours the
newest. So it is measured twice: as it is, and with its candidates put in order of time before. A
third line compares session-rec with itself, with its candidates in a random order: how much of a
list depends on nothing but this order.
"""

import argparse
import importlib
import importlib.util
import inspect
import sys
import types
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import nextquery as nq
from nextquery.datasets.simulated import Population
from nextquery.memory import SessionMemory
from nextquery.research.replay.metrics import interval
from nextquery.sessions import Sessions

TOP = 20


class Pair(NamedTuple):
    """The same recommender on both sides: our name, and theirs with its options."""

    ours: str
    file: str
    kind: str
    options: dict[str, Any]


def pairs(neighbours: int, sample: int) -> list[Pair]:
    """Return what is compared. Theirs keep 20 rules a query by default: here all, as ours do."""
    near: dict[str, Any] = {"k": neighbours, "sample_size": sample}
    ours = f"neighbours={neighbours},sample={sample}"
    return [
        Pair("ar", "baselines/ar.py", "AssociationRules", {"pruning": 0}),
        Pair("sr", "baselines/sr.py", "SequentialRules", {"pruning": 0}),
        Pair(
            f"s-knn@similarity=jaccard,{ours}",
            "knn/sknn.py",
            "ContextKNN",
            {**near, "similarity": "tanimoto"},
        ),
        Pair(f"s-knn@{ours}", "knn/sknn.py", "ContextKNN", {**near, "similarity": "cosine"}),
        Pair(f"vs-knn@{ours}", "knn/vsknn.py", "VMContextKNN", near),
        Pair(f"stan@{ours}", "knn/stan.py", "STAN", near),
        Pair(f"vstan@{ours}", "knn/vstan.py", "VSKNN_STAN", near),
    ]


def loaded(checkout: Path, pair: Pair) -> Any:
    """Return their recommender. What it imports and does not need, or NumPy renamed, is put in."""
    for name in ("pympler", "psutil"):
        sys.modules.setdefault(name, types.ModuleType(name))
    vars(sys.modules["pympler"]).setdefault("asizeof", None)
    if "in1d" not in vars(np):
        vars(np)["in1d"] = np.isin
    path = checkout / "algorithms" / pair.file
    if not path.exists():
        raise SystemExit(f"{path} does not exist. Pass the folder of a checkout of session-rec.")
    spec = importlib.util.spec_from_file_location(f"session_rec_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, pair.kind)(**pair.options)


class Log(NamedTuple):
    """Sessions for training, and those whose steps are ranked, as (arm, time) rows."""

    train: list[list[tuple[int, float]]]
    test: list[list[tuple[int, float]]]


def simulated(seed: int, sessions: int, tested: int, *, repeats: bool) -> Log:
    """Return a log. Without `repeats`, a session keeps only the first of equal queries."""
    numbers: dict[str, int] = {}
    rows: dict[str, list[tuple[int, float]]] = {}
    for row in Population(seed).log(sessions=sessions):
        arm = numbers.setdefault(row.query, len(numbers))
        own = rows.setdefault(row.session_id, [])
        again = {a for a, _ in own} if not repeats else {a for a, _ in own[-1:]}
        if arm not in again:
            own.append((arm, datetime.fromisoformat(row.time).timestamp()))
    ordered = sorted(rows.values(), key=lambda row: row[0][1])
    test = ordered[-tested:]
    begun = test[0][0][1]
    return Log([row for row in ordered[:-tested] if row[-1][1] < begun], test)


class Ranked(NamedTuple):
    """A step: the session so far, its time, and all their scores above 0."""

    history: list[int]
    time: float
    scores: dict[int, float]


def theirs(model: Any, log: Log) -> Iterator[Ranked]:
    """Let their recommender learn, and yield what it ranks at every step."""
    pd: Any = importlib.import_module("pandas")
    flat = [(session, *query) for session, row in enumerate(log.train) for query in row]
    model.fit(pd.DataFrame(flat, columns=["SessionId", "ItemId", "Time"]))
    known = {arm for _, arm, _ in flat}
    items = np.array(sorted(known))
    timed = "timestamp" in inspect.signature(model.predict_next).parameters
    for number, row in enumerate(log.test, start=len(log.train)):
        history: list[int] = []
        for arm, time in row:
            if arm not in known:  # their code expects queries that it has learnt
                break
            history.append(arm)
            scores = model.predict_next(
                number, arm, items, **({"timestamp": time} if timed else {})
            )
            above = scores[scores > 0]
            yield Ranked([*history], time, dict(zip(above.index, above, strict=True)))


def newest_first(model: Any) -> Any:
    """Let their recommender look at possible neighbours in order of time, the newest first."""
    return reordered(model, lambda session: (-model.session_time[session], -session))


def shuffled(model: Any) -> Any:
    """Let their recommender look at possible neighbours in a random order, with seed 0."""
    rng = np.random.default_rng(0)
    return reordered(model, lambda _: rng.random())


def reordered(model: Any, key: Callable[[int], Any]) -> Any:
    """Let their recommender look at possible neighbours in another order."""
    unordered = getattr(model, "possible_neighbor_sessions", None)
    if unordered is not None:
        model.possible_neighbor_sessions = lambda *now: sorted(unordered(*now), key=key)
    return model


def agreement(pair: Pair, model: Any, log: Log) -> NDArray[np.float64]:
    """Return the agreement at every step at which one of the two ranks something."""
    asked = np.array([time for row in log.train for _, time in row])
    sessions = Sessions.of([[arm for arm, _ in row] for row in log.train])
    memory = SessionMemory(sessions._replace(asked=asked))
    rival = nq.rival(pair.ours, memory)
    found = [
        share(
            rival.rank(nq.Step(len(memory), history, time=time, returns=True), TOP).tolist(),
            scores,
            history[-1],
        )
        for history, time, scores in theirs(model, log)
    ]
    return np.array([one for one in found if one is not None])


def with_itself(one: Any, other: Any, log: Log) -> NDArray[np.float64]:
    """Return the agreement of two of their recommenders."""
    found = []
    for ranked, again in zip(theirs(one, log), theirs(other, log), strict=True):
        best = sorted(again.scores, key=lambda arm: -again.scores[arm])
        last = ranked.history[-1]
        found.append(share([arm for arm in best if arm != last][:TOP], ranked.scores, last))
    return np.array([one for one in found if one is not None])


def share(ours: list[int], scores: dict[int, float], current: int) -> float | None:
    """Return the share of a list that the other side's list has; None if both are empty.

    Ours never recommends the current query. What scores as the last of their list is in it.
    """
    others = {arm: score for arm, score in scores.items() if arm != current}
    best = sorted(others.values(), reverse=True)[:TOP]
    if not ours and not best:
        return None
    last = best[-1] if best else np.inf
    same = sum(others.get(arm, 0.0) >= last * (1 - 1e-9) for arm in ours)
    return same / max(len(ours), len(best))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkout", type=Path, help="the folder of a checkout of session-rec")
    parser.add_argument("--sessions", type=int, default=6_000)
    parser.add_argument("--tested", type=int, default=500, help="the newest sessions, to rank in")
    parser.add_argument("--neighbours", type=int, default=500)
    parser.add_argument("--sample", type=int, default=5_000)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--no-repeats", action="store_true", help="no query twice in a session")
    args = parser.parse_args()
    logs = [
        simulated(seed, args.sessions, args.tested, repeats=not args.no_repeats)
        for seed in args.seeds
    ]
    queries = sum(len(row) for log in logs for row in log.train)
    print(f"{queries:,} queries learnt, {sum(len(log.test) for log in logs):,} sessions ranked")
    for pair in pairs(args.neighbours, args.sample):
        for told in ("as it is", "newest first")[: 2 if pair.file.startswith("knn") else 1]:
            models = [loaded(args.checkout, pair) for _ in logs]
            if told == "newest first":
                models = [newest_first(model) for model in models]
            shares = [agreement(pair, *both) for both in zip(models, logs, strict=True)]
            print(f"{pair.ours:<55} {told:<13} {described(np.concatenate(shares))}", flush=True)
        if pair.file.startswith("knn"):
            shares = [
                with_itself(loaded(args.checkout, pair), shuffled(loaded(args.checkout, pair)), log)
                for log in logs
            ]
            print(f"{'session-rec with itself, shuffled':<69} {described(np.concatenate(shares))}")


def described(shares: NDArray[np.float64]) -> str:
    """Return the mean with its 95% interval over steps, and how many lists are the same."""
    mean, low, high = interval(shares)
    equal = np.mean(shares == 1)
    return f"{mean:.4f} [{low:.4f}, {high:.4f}], all at {equal:.1%} of {len(shares):,} steps"


if __name__ == "__main__":
    main()
