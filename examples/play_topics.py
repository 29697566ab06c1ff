"""Run the closed loop on a pool: simulated users first, then you.

Each simulated user is a session of the log that the policy has not learnt from (the encoder has
seen it). The user starts with the session's first query, gets five recommendations per step,
accepts one that occurs later in the real session, and otherwise types the real next query.
"""

import argparse
import sys
from pathlib import Path

import numpy as np

import nextquery as nq

SHOWN = 5


def sessions_of(pool: nq.ArmPool) -> list[list[int]]:
    """Return the sessions of the log as lists of distinct arms, shuffled with a fixed seed."""
    if pool.origin is None:
        sys.exit("this pool was not made from a log, so it has no sessions to play")
    log = pool.origin.sessions
    sessions = [list(dict.fromkeys(s.tolist())) for s in np.split(log.arms, log.offsets[1:-1])]
    order = np.random.default_rng(0).permutation(len(sessions))
    return [sessions[i] for i in order if len(sessions[i]) > 1]


def simulate(rec: nq.Recommender, real: list[int], *, show: bool) -> tuple[int, int]:
    """Simulate one user. Returns how many slates were shown and how many had a hit."""
    texts, remaining, hits = rec.pool.texts, real[1:], 0
    session = rec.start(texts[real[0]])
    for step in range(len(real) - 1):
        slate = session.recommend(SHOWN)
        matches = [choice for choice in slate if choice.arm in remaining]
        if show:
            print(f"  now: {session.query[:90]}")
            for choice in slate:
                print(f"    {'→' if choice in matches[:1] else ' '} {choice.text[:90]}")
        if matches:
            hits += 1
            remaining.remove(matches[0].arm)
            session.accept(matches[0])
        elif slate:
            session.ignore(slate, issued=texts[remaining.pop(0)])
        if not remaining or (step == 3 and show):
            return step + 1, hits
    return len(real) - 1, hits


def interact(rec: nq.Recommender) -> None:
    """Read queries, or numbers of recommendations, from the terminal until an empty line."""
    session: nq.Session | None = None
    slate: list[nq.Choice] = []
    while (typed := input("query, or number of a recommendation> ").strip()) != "":
        if session is None:
            session = rec.start(typed)
        elif typed.isdigit() and 1 <= int(typed) <= len(slate):
            session.accept(slate[int(typed) - 1])
        elif slate:
            session.ignore(slate, issued=typed)
        slate = session.recommend(SHOWN)
        for number, choice in enumerate(slate, start=1):
            print(f"  {number}. {choice.text[:100]}   (score {choice.score:.3f})")


def main() -> None:
    """Learn from past sessions, simulate others, then read your queries."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pool", type=Path, help="a pool folder that ingest wrote")
    parser.add_argument("--users", type=int, default=300, help="how many simulated users")
    parser.add_argument("--past", type=int, default=500, help="sessions to learn from first")
    options = parser.parse_args()
    users = options.users
    pool = nq.ArmPool.open(options.pool)
    sessions = sessions_of(pool)
    policy = nq.policy("lin-ucb-memory")  # the default policy of the service
    rec = nq.Recommender(pool, nq.MaxUtility(k=250), policy, memory=nq.Memory())
    past = sessions[users : users + options.past]
    learnt = rec.warm_start(past)
    print(f"{len(pool):,} arms; learnt {learnt:,} successes from {len(past)} past sessions")
    print("a slate counts as accepted if it contains any later query of the session;")
    print("the encoder has seen these sessions, so this is a demonstration, not a measurement")
    print("\nOne simulated user:")
    simulate(rec, max(sessions[users + options.past :], key=len, default=sessions[-1]), show=True)
    print(f"\n{users} simulated users:")
    slates = hits = 0
    for number, session in enumerate(sessions[:users], start=1):
        shown, hit = simulate(rec, session, show=False)
        slates, hits = slates + shown, hits + hit
        if number % 100 == 0 or number == users:
            print(f"  {number:4d}: {hits:,} of {slates:,} slates accepted ({hits / slates:.1%})")
    if sys.stdin.isatty():
        interact(rec)


if __name__ == "__main__":
    main()
