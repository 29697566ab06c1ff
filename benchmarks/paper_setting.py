"""The service's default against the paper's setting, in the stream by the clock.

Every row is one setting of the service. All have the same steps, warm start and rule of learning;
only how candidates are selected and ranked differs. Hits are those of ten recommendations, and
intervals are over people, paired on the same steps.

``python -m benchmarks.paper_setting POOL --out RUN`` (a pool made with ``ingest --personal``). It
resumes, and prints a Markdown table.
"""

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow.parquet as pq

import nextquery as nq
from nextquery.policies.registry import SERVED
from nextquery.research import replay
from nextquery.research.replay.results import read_run
from nextquery.research.report.tables import interval

PAPER = "lin-ucb-published"
ALGORITHM_2 = {"schedule": "bump"}
DEFINED = {"reading": "defined"}
SETTINGS: dict[str, tuple[str, dict[str, str]]] = {
    "the default": (SERVED, {}),
    "the default, `personal = false`": (f"{SERVED}@personal=off", {}),
    "the default, `schedule = bump`": (SERVED, ALGORITHM_2),
    "the default, `selection = zooming`": (SERVED, {"selection": "zooming"}),
    f"the paper's: `policy = {PAPER}`": (PAPER, {}),
    "… and `schedule = bump` (Algorithm 2)": (PAPER, ALGORITHM_2),
    "… and `reading = defined`": (PAPER, DEFINED),
    "… and both": (PAPER, {**DEFINED, **ALGORITHM_2}),
}


class Hits(NamedTuple):
    """Whether the answer was among the first and the first ten, and a candidate, at each step."""

    first: Any
    ten: Any
    candidate: Any
    people: Any


def hits_of(run: Path, policy: str) -> Hits:
    """Read the steps of one recommender."""
    table = pq.read_table(run / "stream_steps.parquet", filters=[("policy", "=", policy)])
    ranks = table["rank"].to_numpy()
    ten = ((ranks > 0) & (ranks <= 10)).astype(np.float64)
    candidate = np.array(table["candidate"].to_pylist(), np.float64)
    return Hits((ranks == 1).astype(np.float64), ten, candidate, table["person"].to_numpy())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pool")
    parser.add_argument("--out", required=True, help="the folder of the runs")
    parser.add_argument("--since", default="2018-01-01", help="score since this date")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int)
    args = parser.parse_args()
    pool = nq.ArmPool.open(args.pool)
    sessions = replay.sessions_of(pool)
    usual = replay.StreamOptions(since=args.since, policies=(), seed=args.seed)
    found: dict[str, Hits] = {}
    for changes in {str(own): own for _, own in SETTINGS.values()}.values():
        own = {label: policy for label, (policy, how) in SETTINGS.items() if how == changes}
        options = replace(usual, policies=tuple(own.values()), **changes)  # type: ignore[arg-type]
        out = Path(args.out) / ("-".join(changes.values()) or "default")
        replay.run_stream(pool, sessions, out, options, processes=args.processes)
        found |= {label: hits_of(out, policy) for label, policy in own.items()}
        print(f"{out}: {read_run(out)['stream']['seconds']:.0f} s", flush=True)
    ours = found["the default"]
    people = len(np.unique(ours.people))
    print(f"\n{len(ours.ten):,} steps of {people:,} people, seed {args.seed}\n")
    print("| setting | hit@1 | hit@10 | the default less this | answer is a candidate |")
    print("|---|---|---|---|---|")
    for label in SETTINGS:
        hits, gap = found[label], ""
        if hits is not ours:
            mean, low, high = interval(ours.ten - hits.ten, hits.people)
            gap = f"{mean:+.3f} [{low:+.3f}, {high:+.3f}]"
        numbers = [f"{share.mean():.3f}" for share in (hits.first, hits.ten)]
        print(f"| {label} | {' | '.join(numbers)} | {gap} | {hits.candidate.mean():.3f} |")


if __name__ == "__main__":
    main()
