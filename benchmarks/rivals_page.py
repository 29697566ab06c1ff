"""Make docs/rivals.md from the three files of `benchmarks.rivals_results` alone.

    python -m benchmarks.rivals_page

The words of the page are in rivals_page.md beside this file, with a place for each table.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from benchmarks.many_armed_page import table
from benchmarks.rivals_results import (
    BY_KIND,
    CLAIMED,
    CLAIMS,
    FIGURES,
    TABLE,
    WITHOUT_PEOPLE,
    of_stream,
    streams,
)
from nextquery.policies.registry import SERVED
from nextquery.research.replay.results import read_rows
from nextquery.research.report.compare import verdict

PAGE = Path("docs/rivals.md")
TEXT = Path(__file__).with_suffix(".md")
STREAMS = {
    "topics-2018": "topics, first half of 2018",
    "topics-2019": "topics, first half of 2019",
    "simulated": "simulated population",
}
"""The streams of the page, and their names in words."""

Row = Mapping[str, str]
_MRR = ("mrr_at_10", "mrr_low", "mrr_high")


def main() -> None:
    PAGE.write_text(page(FIGURES), encoding="utf-8")
    print(f"wrote {PAGE}")


def page(figures: Path) -> str:
    """Return the page, from result files alone."""
    made: dict[str, Callable[[str], str]] = {
        "table": lambda stream: compared(of_stream(TABLE, stream, figures)),
        "use": lambda stream: use(of_stream(TABLE, stream, figures)),
        "steps": lambda stream: steps(of_stream(TABLE, stream, figures)),
        "kinds": lambda stream: by_kind(of_stream(BY_KIND, stream, figures)),
        "better": lambda stream: better(of_stream(BY_KIND, stream, figures)),
        "claims": lambda _: claims(read_rows(figures / CLAIMED)),
    }

    def filled(place: re.Match[str]) -> str:
        what, _, stream = place[1].partition(" ")
        return made[what](stream)

    return re.sub(r"\{\{(.+?)\}\}", filled, TEXT.read_text(encoding="utf-8"))


def compared(rows: Sequence[Row]) -> str:
    """The table of a stream: every recommender, the best by hit@10 first."""
    head = (
        *("recommender", "hit@1", "hit@5", "hit@10", "less served", "MRR@10", "less served"),
        *("coverage", "train s", "serve ms", "MB"),
    )
    return table(head, [cells(row) for row in rows])


def cells(row: Row) -> list[str]:
    """Return the cells of a recommender."""
    served = row["recommender"] == SERVED
    return [
        f"`{row['recommender']}`",
        *(share(row[name]) for name in ("hit_at_1", "hit_at_5", "hit_at_10")),
        "" if served else gap(row, "hit_at_10_less_served", "hit_at_10_low", "hit_at_10_high"),
        share(row["mrr_at_10"]),
        "" if served else gap(row, "mrr_less_served", "mrr_low", "mrr_high"),
        share(row["coverage"]),
        cost(row["train_seconds"]),
        f"{float(row['serve_ms']):.2f}",
        f"{float(row['serve_mb']):.1f}",
    ]


def use(rows: Sequence[Row]) -> str:
    """The sentence of `nextquery compare` on a stream."""
    numbers = [
        {key: value if key in ("recommender", "start", "stream") else float(value)
         for key, value in row.items()}
        for row in rows
    ]  # fmt: skip
    return verdict(numbers)


def steps(rows: Sequence[Row]) -> str:
    """How many steps and people a stream has, and what each recommender starts from."""
    first = rows[0]
    return (
        f"{int(float(first['steps'])):,} steps of {int(float(first['people'])):,} people, played "
        f"from {first['start'][:10]}, seed {int(float(first['seed']))}"
    )


def by_kind(rows: Sequence[Row]) -> str:
    """Hits at 10 by where the answer had been before, and what only a rival finds."""
    kinds = [kind for kind in ("own", "return", "others") if _of(rows, kind)]
    all_of = {row["recommender"]: row for row in _of(rows, "all")}
    order = sorted(all_of, key=lambda name: -int(all_of[name]["hits"]))
    head = ["recommender"]
    for kind in kinds:
        head.append(f"{kind} ({int(_of(rows, kind)[0]['steps']):,} steps)")
    head += ["others, less served without people", "only it hits (a candidate of ours)"]
    body = []
    for name in order:
        own = {row["answer"]: row for row in rows if row["recommender"] == name}
        line = [f"`{name}`"]
        line += [share(int(own[kind]["hits"]) / int(own[kind]["steps"])) for kind in kinds]
        line.append("" if name == WITHOUT_PEOPLE else _difference(own["others"]))
        only = f"{int(own['all']['only']):,} ({int(own['all']['candidates']):,})"
        line.append("" if name == WITHOUT_PEOPLE else only)
        body.append(line)
    return table(head, body)


def better(rows: Sequence[Row]) -> str:
    """What rivals do better than the served default does without people's own past."""
    rivals = [row for row in rows if row["recommender"].partition("@")[0] != SERVED]
    everywhere, others = _of(rivals, "all"), _of(rivals, "others")
    best = max(everywhere, key=lambda row: int(row["hits"]))
    clear = [row for row in others if float(row["low"]) > 0]
    named = ", ".join(f"`{row['recommender']}` {_difference(row)}" for row in clear)
    nearer = [row for row in everywhere if float(row["mrr_low"]) > 0]
    first = ", ".join(f"`{r['recommender']}` {gap(r, *_MRR)}" for r in nearer)
    found = max(everywhere, key=lambda row: int(row["only"]))
    steps, only, had = (int(found[name]) for name in ("steps", "only", "candidates"))
    return (
        f"the best other recommender is `{best['recommender']}`, {_difference(best)} over all "
        f"steps (MRR@10: {gap(best, *_MRR)}); MRR@10 is clearly higher with {first or 'none'}; "
        f"where only others had asked the answer, {named or 'none'} "
        f"{'hit' if len(clear) > 1 else 'hits'} clearly more often; `{found['recommender']}` hits "
        f"most of what it misses, at {only:,} of {steps:,} steps; at {had:,} of these the answer "
        "was among the candidates, but ranked behind ten others"
    )


def claims(rows: Sequence[Row]) -> str:
    """What papers claim, and what holds on each stream."""
    known = [stream for stream in STREAMS if stream in streams(rows)]
    body = []
    for claim in CLAIMS:
        line = [claim.source, f"`{claim.one}` over `{claim.other}`"]
        for stream in known:
            found = [
                row
                for row in rows
                if (row["stream"], row["one"], row["other"]) == (stream, claim.one, claim.other)
            ]
            line.append(holds(found[0]) if found else "")
        if any(line[2:]):
            body.append(line)
    return table(("paper", "claim", *(STREAMS[stream] for stream in known)), body)


def holds(row: Row) -> str:
    """Return whether a claim holds, with the difference of hit@10.

    >>> holds({"hit_at_10": "0.01", "hit_low": "-0.002", "hit_high": "0.022"})
    'unclear: +.010 [−.002, .022]'
    """
    low, high = float(row["hit_low"]), float(row["hit_high"])
    word = "holds" if low > 0 else "the reverse" if high < 0 else "unclear"
    return f"{word}: {gap(row, 'hit_at_10', 'hit_low', 'hit_high')}"


def gap(row: Row, mean: str, low: str, high: str) -> str:
    """Return a difference with its interval."""
    return f"{share(row[mean], sign=True)} [{share(row[low])}, {share(row[high])}]"


def share(value: float | str, *, sign: bool = False) -> str:
    """Return a share in three digits, without the leading zero.

    >>> share(0.1234), share("-0.02"), share(1.0), share(0.02, sign=True), share(-0.0001)
    ('.123', '−.020', '1.000', '+.020', '.000')
    """
    number = round(float(value), 3)
    digits = f"{abs(number):.3f}"
    digits = digits.removeprefix("0")
    return f"{'−' if number < 0 else '+' if sign else ''}{digits}"


def cost(seconds: str) -> str:
    """Return seconds, with fewer digits if they are many.

    >>> cost("0.0312"), cost("41.7")
    ('0.03', '42')
    """
    number = float(seconds)
    return f"{number:.2f}" if number < 10 else f"{number:.0f}"


def _of(rows: Sequence[Row], kind: str) -> list[Row]:
    return [row for row in rows if row["answer"] == kind]


def _difference(row: Row) -> str:
    mean = (int(row["hits"]) - int(row["served"])) / int(row["steps"])
    return f"{share(mean, sign=True)} [{share(row['low'])}, {share(row['high'])}]"


if __name__ == "__main__":
    main()
