"""Tuning by the clock: which variant was best on the sessions before those that are scored."""

from typing import Any, NamedTuple

from nextquery.errors import InvalidInput
from nextquery.replay.compare.options import VARIANTS, CompareOptions
from nextquery.replay.results import write_rows
from nextquery.replay.stream.protocol import follow
from nextquery.replay.work import Progress, Run, Work

FILE, COLUMNS = "tuning.csv", ["recommender", "variant", "hit_at_10", "steps", "until", "chosen"]


class Tuned(NamedTuple):
    """The variants to score in place of plain names, and the rows of ``tuning.csv``."""

    chosen: dict[str, str]
    rows: list[dict[str, Any]]


def tune(
    work: Work, options: CompareOptions, start: float, run: Run, progress: Progress | None
) -> Tuned:
    """Play the variants on the earlier window, and choose the best of each by hit@10.

    The first of equals is chosen. If nothing comes before the window, nothing is tuned.
    """
    rows: list[dict[str, Any]] = []
    chosen: dict[str, str] = {}
    earlier = options.earlier(start)
    if earlier.policies:
        try:
            _, results = follow(work, earlier, run, progress)
        except InvalidInput:  # no next query is dated before the window
            results = {}
        for name in options.tuned() if results else []:
            hits = {one: _hits(results[one].ranks) for one in VARIANTS[name]}
            chosen[name] = max(hits, key=lambda one: hits[one])
            rows += [
                {
                    "recommender": name,
                    "variant": one,
                    "hit_at_10": hit,
                    "steps": len(results[one].ranks),
                    "until": earlier.until,
                    "chosen": int(one == chosen[name]),
                }
                for one, hit in hits.items()
            ]
    write_rows(work.out / FILE, COLUMNS, rows)
    return Tuned(chosen, rows)


def entered(options: CompareOptions, tuned: Tuned) -> list[str]:
    """Return the names that are scored: tuned variants in place of plain names."""
    names = [tuned.chosen.get(name, name) for name in options.names()]
    return list(dict.fromkeys(names))


def _hits(ranks: Any) -> float:
    return float(((ranks > 0) & (ranks <= 10)).mean())
