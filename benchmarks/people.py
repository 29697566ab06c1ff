"""Simulated people with the habits of web search: how much of what can be foreseen is shown?

A simulated population (`nextquery.datasets.simulated`) writes a log, which becomes a pool. Then the
same people go on with slates of five: they click what they want if they see it, and type it
otherwise. Beside the service stand the most similar queries, which never learn, and two oracles
that know every chance of the population but no new query: one may show every query that was ever
asked, the other only arms of the pool. What people ask does not depend on the slates, so all four
are compared on the same steps.

``python -m benchmarks.people`` prints the acceptance by seed, with 95% intervals over the seeds.
"""

import argparse
import tempfile
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from nextquery.build.ingest import Personal, ingest
from nextquery.datasets.simulated import Person, Population, Wish, shares, write
from nextquery.logs import LogOptions
from nextquery.research.replay.metrics import interval
from nextquery.service.engine.engine import Engine
from nextquery.service.log.store import Clock, Store
from nextquery.service.settings import EngineOptions

_SECRET = "a secret for simulated people, and for nobody else"


@dataclass
class Steps:
    """What happened at every step, in order."""

    kind: list[str]
    ours: list[bool]
    most_similar: list[bool]
    oracle: list[float]  #: the best possible chance of a hit
    oracle_arms: list[float]  #: the same with arms of the pool alone

    def acceptance(self, contestant: str) -> float:
        """Return the acceptance over all steps."""
        return float(np.mean(getattr(self, contestant)))

    def of_kind(self, contestant: str, kind: str) -> float:
        """Return the acceptance at the steps whose next query was of a kind."""
        of = [
            hit
            for hit, was in zip(getattr(self, contestant), self.kind, strict=True)
            if was == kind
        ]
        return float(np.mean(of)) if of else float("nan")


def live(
    seed: int,
    *,
    sessions: int,
    rounds: int,
    people: int = 200,
    together: int = 25,
    m: int = 5,
    encoder: str = "auto",
    trusted: bool = True,
    **changes: Any,
) -> Steps:
    """Play one population against a new service; `together` people are in a session at once.

    The service's clock is the population's. With `trusted`, it knows that people are who they say.
    """
    population = Population(seed, people=people)
    steps = Steps(*([] for _ in fields(Steps)))
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "simulated.tsv"
        rows = population.log(sessions=sessions)
        write(rows, log)
        options = LogOptions(min_queries=1)
        people_of_log = Personal(_SECRET) if trusted else None
        pool = ingest(
            log, Path(folder) / "pool", options, encoder=encoder, personal=people_of_log
        ).pool
        measured = " ".join(f"{kind} {share:.3f}" for kind, share in shares(rows).by_name())
        print(f"seed {seed}: {len(rows):,} queries, {len(pool):,} arms, {measured}", flush=True)
        store = Store.open(str(Path(folder) / "store.db"))
        chosen = EngineOptions(seed=seed, user_hash_secret=_SECRET, **changes)
        now = [population.now().timestamp()]
        clock = Clock(wall=lambda: now[0], monotonic=lambda: now[0])
        with Engine.start(pool, store, chosen, clock=clock) as engine:
            while len(steps.ours) < rounds:
                playing = sorted(population.people, key=lambda person: person.next)[:together]
                for person in playing:
                    population.begin(person)
                while playing and len(steps.ours) < rounds:
                    now[0] = max(now[0], population.now().timestamp())
                    _step(engine, population, playing, m, steps, trusted=trusted)
                    playing = [person for person in playing if person.left]
        store.close()
    return steps


def _step(
    engine: Engine,
    population: Population,
    playing: list[Person],
    m: int,
    steps: Steps,
    *,
    trusted: bool,
) -> None:
    """Everybody gets a slate, and clicks or types what they want."""
    decisions = [
        engine.submit_recommend(
            session_id=person.session_id,
            user_id=person.user_id,
            query=person.query,
            m=m,
            trusted=trusted,
        )
        for person in playing
    ]
    slates = [future.result() for future in decisions]
    wishes: list[Wish] = []
    feedback = []
    pool = engine.catalogue.pool
    arms = {text for text in pool.texts if pool.index_of(text) is not None}
    for person, slate in zip(playing, slates, strict=True):
        best = population.likely(person, m)
        steps.oracle.append(sum(chance for _, chance in best))
        best = population.likely(person, m, among=arms)
        steps.oracle_arms.append(sum(chance for _, chance in best))
        wish = population.wish(person)
        wishes.append(wish)
        shown = {entry.text: entry.arm for entry in slate.recommendations}
        steps.kind.append(wish.kind)
        steps.ours.append(wish.text in shown)
        steps.most_similar.append(wish.text in _most_similar(engine, person, m))
        feedback.append(
            engine.submit_feedback(
                decision_id=slate.decision_id,
                user_id=person.user_id,
                trusted=trusted,
                accepted=shown.get(wish.text),
                issued=None if wish.text in shown else wish.text,
            )
        )
    for status in feedback:
        status.result()
    for person, wish in zip(playing, wishes, strict=True):
        population.move(person, wish)
    engine.learner.catch_up()


def _most_similar(engine: Engine, person: Person, m: int) -> list[str]:
    """Return the texts of the arms most similar to the running query, without the session's."""
    past = [engine.catalogue.find(text) for text in person.session]
    near, _ = engine.catalogue.pool.nearest(
        engine.catalogue.place(person.query).vector, m, exclude=[a for a in past if a is not None]
    )
    return [engine.catalogue.pool.texts[arm] for arm in near.tolist()]


def report(played: list[Steps]) -> dict[str, list[float]]:
    """Return the measures, each with one value per seed."""
    rows: dict[str, list[float]] = {}
    for steps in played:
        each = {name: steps.acceptance(name) for name in ("ours", "most_similar", "oracle")}
        each["oracle_arms"] = steps.acceptance("oracle_arms")
        each["share_of_oracle"] = each["ours"] / each["oracle"]
        each["share_of_oracle_arms"] = each["ours"] / each["oracle_arms"]
        each["gain_over_most_similar"] = float(sum(steps.ours) - sum(steps.most_similar))
        for kind in ("own", "returned", "others"):
            each[f"ours_{kind}"] = steps.of_kind("ours", kind)
        for name, value in each.items():
            rows.setdefault(name, []).append(value)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--sessions", type=int, default=5_000, help="sessions of the past log")
    parser.add_argument("--rounds", type=int, default=4_000, help="steps with slates")
    parser.add_argument("--people", type=int, default=200)
    parser.add_argument("--encoder", default="auto")
    parser.add_argument("--untrusted", action="store_true", help="nobody has a past of their own")
    args = parser.parse_args()
    played = [
        live(
            seed,
            sessions=args.sessions,
            rounds=args.rounds,
            people=args.people,
            encoder=args.encoder,
            trusted=not args.untrusted,
        )
        for seed in args.seeds
    ]
    print(f"simulated people, slates of 5, {args.rounds} steps each; seeds {args.seeds}")
    for name, values in report(played).items():
        found = interval(np.array(values))
        each = " ".join(f"{value:.3f}" for value in values)
        print(f"{name:24} {found.mean:9.3f} [{found.low:.3f}, {found.high:.3f}]   by seed: {each}")


if __name__ == "__main__":
    main()
