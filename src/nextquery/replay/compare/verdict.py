"""Which recommender to use, in one sentence, from the rows of a comparison."""

from collections.abc import Mapping, Sequence
from typing import Any

from nextquery.policies.registry import SERVED

Row = Mapping[str, Any]


def verdict(rows: Sequence[Row]) -> str:
    """Return the sentence.

    A recommender is clearly better if the 95% interval of its hit@10 less that of the served
    default is above 0. Among those, the one with the best hit@10 is named.

    >>> ours = {"recommender": SERVED, "hit_at_10": 0.2}
    >>> gap = {"hit_at_10_less_served": 0.02, "hit_at_10_low": 0.01, "hit_at_10_high": 0.03}
    >>> verdict([{"recommender": "stan", "hit_at_10": 0.22, **gap}, ours])[:37]
    'Use stan: its hit@10 is 0.220, by +0.'
    """
    ours = next(row for row in rows if row["recommender"] == SERVED)
    others = [row for row in rows if not _is_served(row)]
    if not others:
        return f"Use {SERVED}, the served default: nothing else was compared."
    best = max(others, key=lambda row: float(row["hit_at_10"]))
    better = [row for row in others if float(row["hit_at_10_low"]) > 0]
    if better:
        best = max(better, key=lambda row: float(row["hit_at_10"]))
        return (
            f"Use {best['recommender']}: its hit@10 is {best['hit_at_10']:.3f}, by "
            f"{_gap(best)} better than that of {SERVED}, the served default "
            f"({ours['hit_at_10']:.3f})."
        )
    equal = float(best["hit_at_10_high"]) >= 0
    sign = "cannot be told apart from it" if equal else "is clearly worse"
    return (
        f"Use {SERVED}, the served default, with hit@10 {ours['hit_at_10']:.3f}: the best other "
        f"recommender, {best['recommender']}, {sign} ({_gap(best)})."
    )


def _is_served(row: Row) -> bool:
    """Whether a row is the served default, whole or with something switched off."""
    return str(row["recommender"]).partition("@")[0] == SERVED


def _gap(row: Row) -> str:
    low, high = row["hit_at_10_low"], row["hit_at_10_high"]
    return f"{row['hit_at_10_less_served']:+.3f} [{low:+.3f}, {high:+.3f}]"
