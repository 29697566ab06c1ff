"""What each part of the recommender adds on `topics`, by the clock: hit@10 with paired intervals.

The served recommender plays the stream again and again, each time with some of its features set
to 0. People have their own past, as with trusted ids.

``python -m benchmarks.topics_parts POOL --out RUN`` (a pool made with ``ingest --personal``).
"""

import argparse
from typing import Any

import numpy as np

import nextquery as nq
from nextquery.memory import FEATURES
from nextquery.policies.packed import Context
from nextquery.policies.policy import Floats
from nextquery.research.replay.players import Contestant, Stream, StreamOptions
from nextquery.research.replay.stream import played, select_all
from nextquery.research.replay.work import Work, begin, runner
from nextquery.research.report.tables import interval
from nextquery.selection import Candidates

MATCHED = tuple(name for name in FEATURES if name.startswith("matching"))
OWN = tuple(name for name in FEATURES if "own" in name)
RETURN = ("return",)
SESSIONS = FEATURES[2:7]
VARIANTS: dict[str, tuple[str, ...]] = {
    "similarity and popularity alone": (*SESSIONS, *MATCHED, *RETURN, *OWN),
    "and what followed in earlier sessions": (*MATCHED, *RETURN, *OWN),
    "and matched sessions": (*RETURN, *OWN),
    "and the flag of returns": OWN,
    "and the person's own past: all": (),
}


class Without(nq.LinUCB):
    """The served policy with some features set to 0."""

    def __init__(self, without: tuple[str, ...] = (), *, seed: int = 0) -> None:
        super().__init__(alpha=0.1, features="memory", seed=seed)
        self.without = without

    def _features(self, candidates: Candidates, context: Context) -> Floats:
        features = super()._features(candidates, context).copy()
        features[:, [FEATURES.index(name) for name in self.without]] = 0.0
        return features


def hits_without(work: Work, stream: Stream, options: StreamOptions, names: tuple[str, ...]) -> Any:
    """Return hits@10 at every scored step, without some features."""
    entrant = Contestant(None, Without(names), personal=not names)
    ranks = played(work, stream, options, entrant).ranks
    return ((ranks > 0) & (ranks <= 10)).astype(np.float64)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pool")
    parser.add_argument("--out", required=True, help="the folder of the run")
    parser.add_argument("--since", default="2018-01-01")
    args = parser.parse_args()
    pool = nq.ArmPool.open(args.pool)
    assert pool.origin is not None
    work = begin(pool, pool.origin.sessions, args.out)
    for returns in (False, True):
        options = StreamOptions(since=args.since, returns=returns, policies=())
        stream = select_all(work, options, runner())
        people, before = stream.people_of(stream.scored_steps), None
        print(f"returns {'allowed' if returns else 'hidden'}; {len(people):,} steps", flush=True)
        for name, without in VARIANTS.items():
            hits = hits_without(work, stream, options, without)
            mean, low, high = interval(hits, people)
            line = f"  {name:40} {mean:.4f} [{low:.4f}, {high:.4f}]"
            if before is not None:
                gap, low, high = interval(hits - before, people)
                line += f"   adds {gap:+.4f} [{low:+.4f}, {high:+.4f}]"
            print(line, flush=True)
            before = hits


if __name__ == "__main__":
    main()
