"""What the page of rivals needs of its runs, in three small files.

    python -m benchmarks.rivals_results topics-2018=RUN topics-2019=RUN simulated=RUN

A RUN is a folder that ``nextquery compare`` wrote. Its rows go to docs/figures/rivals.csv. From its
steps come docs/figures/rivals-claims.csv (two recommenders against each other, as papers compare
them) and docs/figures/rivals-kinds.csv (hits by where the answer had been before). Everything is
paired on the same steps; intervals are over people. Other streams in these files are kept.
"""

import csv
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from nextquery.policies.registry import SERVED, joined, split
from nextquery.research.replay.players import ANSWERS
from nextquery.research.replay.results import read_rows
from nextquery.research.report.compare import COLUMNS, FILE
from nextquery.research.report.tables import interval

FIGURES = Path("docs/figures")
TABLE, CLAIMED, BY_KIND = "rivals.csv", "rivals-claims.csv", "rivals-kinds.csv"
_GAP = ("hit_at_10", "hit_low", "hit_high", "mrr_at_10", "mrr_low", "mrr_high")
HEADERS = {
    TABLE: ("stream", *COLUMNS),
    CLAIMED: ("stream", "one", "other", *_GAP),
    BY_KIND: (
        *("stream", "recommender", "answer", "steps", "hits", "served"),
        *("only", "candidates", "low", "high", "mrr_at_10", "mrr_low", "mrr_high"),
    ),
}
WITHOUT_PEOPLE = f"{SERVED}@personal=off"


class Claim(NamedTuple):
    """That one recommender is better than another, and who says so."""

    one: str
    other: str
    source: str


CLAIMS = (
    Claim("lin-ucb-published", "lin-ts", "the paper: LinUCB over LinThompSamp"),
    Claim("lin-ucb-published", "most-similar", "the paper: LinUCB over Most Similar"),
    Claim("lin-ucb-published", "random", "the paper: LinUCB over random"),
    Claim("n-gram", "ar", "He et al. 2009: series of queries over pairs"),
    Claim("vmm", "ar", "He et al. 2009: series of queries over pairs"),
    Claim("sr", "gru4rec", "Kamehkhosh et al. 2017: simple rules over a recurrent network"),
    Claim("s-knn", "gru4rec", "Jannach and Ludewig 2017: neighbours over a recurrent network"),
    Claim("vs-knn", "s-knn", "Ludewig and Jannach 2018: weights by place over none"),
    Claim("stan", "s-knn", "Garg et al. 2019: place and time over neither"),
    Claim("vstan", "gru4rec", "Ludewig et al. 2020: neighbours over networks"),
    Claim("sasrec", "gru4rec", "Kang and McAuley 2018: attention over a recurrent network"),
    Claim("acg", "vmm", "Dehghani et al. 2017, beside counting"),
    Claim("rin", "vmm", "Jiang and Wang 2018, beside counting"),
    Claim("rin", "gru4rec", "Jiang and Wang 2018, beside reading queries alone"),
    Claim("cfan", "vmm", "Li et al. 2019, beside counting"),
    Claim("cfan", "gru4rec", "Li et al. 2019, beside reading queries alone"),
)
"""What papers claim; beside what stands a network whose paper has other baselines."""


class Played(NamedTuple):
    """The steps of a run: ranks by recommender, and of each step whose it is and its answer.

    `candidates`: whether the answer was a candidate of the served default without people's past.
    """

    ranks: dict[str, NDArray[np.int64]]
    people: NDArray[np.int64]
    answers: NDArray[Any]
    candidates: NDArray[np.bool_]


def main() -> None:
    runs = dict(given.split("=", 1) for given in sys.argv[1:])
    if not runs:
        raise SystemExit(__doc__)
    keep({name: Path(run) for name, run in runs.items()}, FIGURES)
    print(f"wrote {', '.join(HEADERS)} in {FIGURES}")


def keep(runs: Mapping[str, Path], figures: Path) -> None:
    """Write the three files from runs of ``nextquery compare``, by the name of their stream."""
    for name, header in HEADERS.items():
        path, made = figures / name, []
        for stream, run in runs.items():
            rows = {TABLE: table_rows, CLAIMED: claim_rows, BY_KIND: kind_rows}[name](run)
            made += [{"stream": stream, **row} for row in rows]
        others = read_rows(path) if path.exists() else []
        made += [row for row in others if row["stream"] not in runs]
        with path.open("w", newline="", encoding="utf-8") as lines:
            writer = csv.DictWriter(lines, header, lineterminator="\n")
            writer.writeheader()
            writer.writerows({key: short(value) for key, value in row.items()} for row in made)


def table_rows(run: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of ``compare.csv``; a model's folder is left out of its name."""
    for row in read_rows(run / FILE):
        yield {**row, "recommender": plain(row["recommender"])}


def claim_rows(run: Path) -> Iterator[dict[str, Any]]:
    """Yield what is left of each claim: one less the other, with intervals."""
    played = steps_of(run)
    named = {name.partition("@")[0]: ranks for name, ranks in played.ranks.items()}
    for claim in CLAIMS:
        if claim.one in named and claim.other in named:
            one, other = named[claim.one], named[claim.other]
            gaps = [*interval(hits(one) - hits(other), played.people)]
            gaps += interval(reciprocal(one) - reciprocal(other), played.people)
            yield {
                "one": claim.one,
                "other": claim.other,
                **dict(zip(_GAP, gaps, strict=True)),
            }


def kind_rows(run: Path) -> Iterator[dict[str, Any]]:
    """Yield, for each recommender and kind of answer, its hits beside those of the served default.

    `only` counts hits that the served default, without people's own past, misses, and `candidates`
    those of them that it had among its candidates; the intervals are of the differences of hit@10
    and of MRR@10, which `mrr_at_10` has.
    """
    played = steps_of(run)
    usual = played.ranks.get(WITHOUT_PEOPLE, played.ranks[SERVED])
    base = hits(usual)
    for name, ranks in played.ranks.items():
        own = hits(ranks)
        for kind in ("all", *ANSWERS):
            here = np.ones(len(own), bool) if kind == "all" else played.answers == kind
            if not here.any():
                continue
            _, low, high = interval(own[here] - base[here], played.people[here])
            earlier = reciprocal(ranks[here]) - reciprocal(usual[here])
            gaps = interval(earlier, played.people[here])
            yield {
                "recommender": name,
                "answer": kind,
                "steps": int(here.sum()),
                "hits": int(own[here].sum()),
                "served": int(base[here].sum()),
                "only": int((own > base)[here].sum()),
                "candidates": int(((own > base) & played.candidates)[here].sum()),
                "low": low,
                "high": high,
                **dict(zip(("mrr_at_10", "mrr_low", "mrr_high"), gaps, strict=True)),
            }


def steps_of(run: Path) -> Played:
    """Return every step of a run."""
    columns = ["policy", "rank", "person", "answer", "candidate"]
    table = pq.read_table(run / "stream_steps.parquet", columns=columns)
    names = np.array(table["policy"].to_pylist(), dtype=object)
    first = names == names[0]
    ranks, candidates = table["rank"].to_numpy(), table["candidate"].to_numpy()
    return Played(
        {plain(name): ranks[names == name] for name in dict.fromkeys(names.tolist())},
        table["person"].to_numpy()[first],
        np.array(table["answer"].to_pylist(), dtype=object)[first],
        candidates[names == (WITHOUT_PEOPLE if WITHOUT_PEOPLE in names else SERVED)],
    )


def plain(name: str) -> str:
    """Return the name of a recommender without the folder of its model.

    >>> plain("gru4rec@model=runs/gru4rec"), plain("stan@session_days=30")
    ('gru4rec', 'stan@session_days=30')
    """
    kind, given = split(name)
    return joined(kind, {key: value for key, value in given.items() if key != "model"})


def hits(ranks: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return 1 for every answer among the first ten."""
    return ((ranks > 0) & (ranks <= 10)).astype(np.float64)


def reciprocal(ranks: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return 1/rank for every answer among the first ten."""
    return hits(ranks) / np.maximum(ranks, 1)


def short(value: Any) -> Any:
    """Return a number with six digits after the point, so that the files stay small.

    >>> short("0.12345678"), short(3), short("sr"), short(-0.0)
    ('0.123457', 3, 'sr', '0')
    """
    try:
        number = float(value)
    except ValueError:
        return value
    if isinstance(value, int) or number.is_integer():
        return value if isinstance(value, int) else str(int(number))
    return f"{number:.6f}"


def of_stream(name: str, stream: str, figures: Path = FIGURES) -> list[dict[str, str]]:
    """Return the rows of a stream in one of the three files."""
    return [row for row in read_rows(figures / name) if row["stream"] == stream]


def streams(rows: Iterable[Mapping[str, str]]) -> list[str]:
    """Return the streams of some rows, in their order."""
    return list(dict.fromkeys(row["stream"] for row in rows))


if __name__ == "__main__":
    main()
