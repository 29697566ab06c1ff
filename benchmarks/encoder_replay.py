"""The effect of the encoder on replay: the paper's Figure 2 with several encoders.

Uses the newest sessions of a log, because a sentence model encodes hundreds of texts per second on
a CPU, not tens of thousands. The anchors come from the newest sessions of these, which no encoder
learnt from. All encoders get the same anchors, so differences are paired.

    python -m benchmarks.encoder_replay LOG --out DIR --encoders mine=FOLDER static tuned

NAME alone is fitted on this part, without its held-out sessions. LABEL=FOLDER is an encoder that
`nextquery train` saved, or the encoder of a pool that `nextquery ingest` wrote; both must use the
same --hold-out. LABEL=LABEL2/static is a token table distilled from an earlier encoder. Finished
encoders are skipped. The first encoder is compared with the others.
"""

import argparse
import json
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nextquery import folders
from nextquery.arms import ArmPool
from nextquery.arms.pool import KIND
from nextquery.build.ingest import ingest
from nextquery.encode import Encoder, TrainedEncoder
from nextquery.encode.tokens import Tokens
from nextquery.encode.train.export import single_tokens, table_of
from nextquery.research import replay
from nextquery.research.replay.metrics import difference, interval
from nextquery.research.report import figures
from nextquery.research.report.figures import read_curves

ROUNDS = (10, 100, 1000)
PUBLISHED, OURS = "lin-ucb-published", "lin-ucb"
POLICIES = {
    PUBLISHED: "LinUCB, published",
    OURS: "LinUCB, ours",
    "lin-ts": "LinTS",
    "most-similar": "Most Similar",
}
Floats = NDArray[np.float64]


def newest_part(log: str, sessions: int, out: Path) -> None:
    """Write the rows of the sessions that started last, in the order of the file."""
    import duckdb

    rows = duckdb.execute(
        "select session_id, time, query from read_csv(?, delim='\t', quote='', header=true, "
        "all_varchar=true)",
        [log],
    ).fetchall()
    starts: dict[str, tuple[str, int]] = {}
    for at, (session, moment, _) in enumerate(rows):
        earliest, first = starts.get(session, (moment, at))
        starts[session] = min(earliest, moment), first
    kept = set(sorted(starts, key=lambda session: starts[session])[-sessions:])
    lines = ["\t".join(row) for row in rows if row[0] in kept]
    out.write_text("\n".join(["session_id\ttime\tquery", *lines, ""]), encoding="utf-8")


def saved_encoder(folder: Path, copy: Path) -> str:
    """Return the folder of an encoder; for a pool, of a copy of its encoder."""
    kind = json.loads((folder / folders.MANIFEST).read_text(encoding="utf-8"))["kind"]
    if kind != KIND:
        return str(folder)
    encoder = ArmPool.open(folder).encoder
    assert isinstance(encoder, Encoder), f"{folder} has no encoder"
    encoder.save(copy)
    return str(copy)


def distilled(teacher: str, out: Path, hold_out: int) -> Path:
    """Save the token table that best approximates a pool's vectors, without held-out sessions."""
    pool = ArmPool.open(out / f"{teacher}-pool")
    sessions, encoder = replay.sessions_of(pool), pool.encoder
    assert isinstance(encoder, TrainedEncoder), f"{teacher} is not a trained encoder"
    arms = np.unique(sessions.arms[: sessions.offsets[-1 - hold_out]])
    tokens = Tokens(bytes(encoder.parts()["encoder_tokenizer.json"]))  # type: ignore[arg-type]
    texts = [pool.texts[i] for i in arms]
    table = table_of(pool.rows(arms), tokens, texts, single_tokens(encoder, tokens))
    table.save(out / f"{teacher}-static")
    return out / f"{teacher}-static"


def replayed(label: str, folder: str, part: Path, args: argparse.Namespace) -> None:
    """Ingest the part with one encoder and replay the algorithms on it."""
    encoder, teacher = label, folder.removesuffix("/static")
    if (args.out / f"{teacher}-pool").exists():
        encoder = str(distilled(teacher, args.out, args.hold_out))
    elif folder:
        encoder = saved_encoder(Path(folder), args.out / f"{label}-encoder")
    start = time.perf_counter()
    made = ingest(part, args.out / f"{label}-pool", encoder=encoder, hold_out=args.hold_out)
    pool, sessions = made.pool, replay.sessions_of(made.pool)
    spent = time.perf_counter() - start
    size = f"{len(pool):,} arms, {sessions.size:,} sessions"
    print(f"{label}: {size}, read and encoded in {spent:.0f} s", flush=True)
    options = replay.Options(
        anchors=args.anchors,
        policies=tuple(POLICIES),
        seeds=(args.seed,),
        encoder=label,
        held_out=args.hold_out,
    )
    replay.run_grid(pool, sessions, args.out / label, options)


class Result(NamedTuple):
    """R(t)/t by anchor, and which anchors' next queries are not candidates."""

    sessions: list[int]
    missed: Floats
    regret: dict[int, Floats]


def read(run: Path, policy: str) -> Result:
    """Read one policy's anchors from the result file."""
    import pyarrow.parquet as pq

    rows = pq.read_table(run / "anchors.parquet", filters=[("policy", "=", policy)]).to_pylist()
    rows.sort(key=lambda row: row["anchor"])
    at = {t: [row for row in rows if row["round"] == t] for t in ROUNDS}
    first = at[ROUNDS[0]]
    return Result(
        [row["session"] for row in first],
        np.array([row["floor"] for row in first]),
        {t: np.array([row["per_round_regret"] for row in at[t]]) for t in ROUNDS},
    )


def table(labels: list[str], out: Path) -> None:
    """Print Markdown: every encoder, then the first against the others on the same anchors."""
    results = {(label, p): read(out / label, p) for label in labels for p in POLICIES}
    assert len({tuple(r.sessions) for r in results.values()}) == 1, "not the same anchors"
    head = " | ".join(f"t = {t}" for t in ROUNDS)
    print(f"\n| encoder | policy | {head} |\n|---|---|" + "---|" * len(ROUNDS))
    for label in labels:
        low = interval(results[label, OURS].missed)
        print(f"| {label} | floor | | | {low.mean:.3f} [{low.low:.3f}, {low.high:.3f}] |")
        for policy, name in POLICIES.items():
            intervals = [interval(results[label, policy].regret[t]) for t in ROUNDS]
            cells = " | ".join(f"{i.mean:.3f} [{i.low:.3f}, {i.high:.3f}]" for i in intervals)
            print(f"| {label} | {name} | {cells} |")
    best = labels[0]
    print(f"\n| {best} − | floor | published, t = 1000 | ours, t = 1000 |\n|---|---|---|---|")
    for label in labels[1:]:
        first, other = results[best, OURS], results[label, OURS]
        pairs = [difference(first.missed, other.missed)]
        for policy in (PUBLISHED, OURS):
            pair = results[best, policy].regret[1000], results[label, policy].regret[1000]
            pairs.append(difference(*pair))
        cells = " | ".join(f"{d.mean:+.3f} [{d.low:+.3f}, {d.high:+.3f}]" for d in pairs)
        print(f"| {label} | {cells} |")


def figure(labels: list[str], out: Path) -> None:
    """Draw one panel per policy, one line per encoder, and floors as marks at the right edge."""
    picture, panels = figures.new_figure(2, width=9.4, height=3.8)
    for axes, policy in zip(panels, (PUBLISHED, OURS), strict=True):
        figures.regret_axes(axes, max(ROUNDS), title=POLICIES[policy])
        ends = []
        for at, label in enumerate(labels):
            curve = next(c for c in read_curves(out / label) if c.policy == policy)
            colour, line = figures.CYCLE[at], figures.STYLES[at]
            axes.plot(curve.rounds, curve.regret, color=colour, linestyle=line)
            axes.fill_between(curve.rounds, curve.low, curve.high, color=colour, alpha=0.12, lw=0)
            axes.plot([max(ROUNDS)], [curve.floor], marker="<", color=colour, clip_on=False, ms=5)
            ends.append((curve.last, f"{label}  {curve.last:.3f}", colour))
        figures.label_ends(axes, ends, gap=0.05)
    panels[0].set_ylabel("per-round regret R(t)/t")
    figures.save(picture, out, "figure-2-encoders")


def main() -> None:
    parser = argparse.ArgumentParser(description="Figure 2 with several encoders.")
    parser.add_argument("log", help="session_id, time, query (TSV)")
    parser.add_argument("--encoders", nargs="+", required=True, metavar="NAME|LABEL=FOLDER")
    parser.add_argument("--newest", type=int, default=6_000, help="sessions to use")
    parser.add_argument("--hold-out", type=int, default=2_000, help="newest sessions, for anchors")
    parser.add_argument("--anchors", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    part = args.out / "part.tsv"
    if not part.exists():
        newest_part(args.log, args.newest, part)
    named = [what.partition("=")[::2] for what in args.encoders]
    for label, folder in named:
        if not (args.out / label / "anchors.parquet").exists():
            replayed(label, folder, part, args)
    labels = [label for label, _ in named]
    table(labels, args.out)
    figure(labels, args.out)


if __name__ == "__main__":
    main()
