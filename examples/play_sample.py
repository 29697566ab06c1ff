"""Play the closed loop on the built-in sample: simulated users first, then you.

Each simulated user is a session of the sample that the recommender has not seen. It starts with
the session's first query, is shown five recommendations a step, accepts one that the real session
contains further on, and otherwise types the real next query.
"""

import argparse
import sys
import time
from itertools import groupby

import nextquery as nq
from nextquery import datasets

SHOWN = 5


def sessions_of_the_sample() -> list[list[str]]:
    """The sessions as lists of distinct lower-case queries, in a fixed mixed order."""
    rows = groupby(datasets.load("sample"), key=lambda row: row.session_id)
    sessions = [list(dict.fromkeys(row.query.lower() for row in group)) for _, group in rows]
    return [sessions[i * 1009 % len(sessions)] for i in range(len(sessions))]


def build(sessions: list[list[str]]) -> nq.Recommender:
    """A recommender whose arms are all queries of the sample."""
    texts = list(dict.fromkeys(query for session in sessions for query in session))
    encoder = nq.encode.LsaEncoder(dim=128).fit(texts)
    vectors = encoder.encode(texts)
    placed = (vectors != 0).any(axis=1)  # a query without one known word has no place
    texts = [text for text, known in zip(texts, placed.tolist(), strict=True) if known]
    pool = nq.ArmPool.from_vectors(texts, vectors[placed])
    return nq.Recommender(pool, nq.MaxUtility(k=250), nq.LinUCB(), encoder)


def simulate(rec: nq.Recommender, real: list[str], *, show: bool) -> tuple[int, int]:
    """One simulated user; returns how many slates were shown and how many had a hit."""
    session, left, hits = rec.start(real[0]), real[1:], 0
    for step in range(len(left)):
        slate = session.recommend(SHOWN)
        wanted = [choice for choice in slate if choice.text in left]
        if show:
            print(f"  now: {session.query[:90]}")
            for choice in slate:
                print(f"    {'→' if choice in wanted[:1] else ' '} {choice.text[:90]}")
        if wanted:
            hits += 1
            left.remove(wanted[0].text)
            session.accept(wanted[0])
        elif slate:
            session.ignore(slate[0], issued=left.pop(0))
        if not left or (step == 3 and show):
            return step + 1, hits
    return len(real) - 1, hits


def talk(rec: nq.Recommender) -> None:
    """You: type a query, or the number of a recommendation; an empty line ends."""
    session: nq.Session | None = None
    slate: list[nq.Choice] = []
    while (typed := input("query, or number of a recommendation> ").strip()) != "":
        if session is None:
            session = rec.start(typed)
        elif typed.isdigit() and 1 <= int(typed) <= len(slate):
            session.accept(slate[int(typed) - 1])
        elif slate:
            session.ignore(slate[0], issued=typed)
        slate = session.recommend(SHOWN)
        for number, choice in enumerate(slate, start=1):
            print(f"  {number}. {choice.text[:100]}   (score {choice.score:.3f})")


def main() -> None:
    """Build, warm up on most of the sample, simulate the rest, and hand over to you."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--users", type=int, default=300, help="how many simulated users")
    parser.add_argument(
        "--past", type=int, default=500, help="how many sessions to learn from first"
    )
    options = parser.parse_args()
    users, past = options.users, options.past
    began = time.perf_counter()
    sessions = sessions_of_the_sample()
    rec = build(sessions)
    seconds = time.perf_counter() - began
    print(f"{len(rec.pool):,} arms, dim {rec.pool.dim}, built in {seconds:.1f} s")
    learnt = rec.warm_start(sessions[users : users + past])
    print(f"learnt {learnt:,} successes from {past} past sessions\n\nOne simulated user:")
    simulate(rec, sessions[0], show=True)
    print(f"\n{users} simulated users (sessions of the sample not seen before):")
    slates = hits = 0
    for number, session in enumerate(sessions[:users], start=1):
        shown, hit = simulate(rec, session, show=False)
        slates, hits = slates + shown, hits + hit
        if number % 100 == 0 or number == users:
            print(
                f"  {number:4d} users: {hits:,} of {slates:,} slates accepted ({hits / slates:.1%})"
            )
    if sys.stdin.isatty():
        talk(rec)


if __name__ == "__main__":
    main()
