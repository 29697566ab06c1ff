"""Are forecasts well calibrated? A reliability curve on sessions used for nothing else.

``nextquery ingest sample --hold-out 500 --out POOL`` hides the newest 500 sessions from the
encoder. ``python -m benchmarks.calibration POOL`` also hides them from the model and its
calibration, forecasts every step of them, and writes docs/figures/calibration.png.
"""

import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import nextquery as nq
from nextquery.calibration import expected_error, probability
from nextquery.errors import InvalidInput
from nextquery.policies.names import SERVED
from nextquery.warm_start import Steps, walk

FIGURE = Path(__file__).parents[1] / "docs" / "figures" / "calibration.png"
EDGES = np.array([0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.2, 0.4, 1.0000001])


def forecasts(
    pool: nq.ArmPool, held_out: int, m: int
) -> tuple[NDArray[np.float64], NDArray[np.bool_], NDArray[np.int64]]:
    """Forecast m queries at every held-out step: probability, whether it came, and session."""
    assert pool.origin is not None
    past = pool.origin.sessions.in_order_of_time()
    known = past.take(np.arange(past.size - held_out))
    memory = nq.Memory(known)
    rec = nq.Recommender(pool, nq.MaxUtility(k=250), nq.policy(SERVED), memory=memory)
    rec.warm_start()
    memory.past = nq.Memory(past).past  # at every step, only what came before it counts
    forecast, came, owner = [np.empty(0)], [np.empty(0, bool)], [np.empty(0, np.int64)]
    for step in walk(rec, Steps.of(past, known.size, past.size, pool.rows_in_all)):
        scores = rec.expected(step.candidates, step.context)
        probabilities = probability(rec.learnt.calibration, scores)
        best = np.lexsort((step.candidates.arms, -scores, -probabilities))[:m]
        forecast.append(probabilities[best])
        came.append(step.candidates.arms[best] == step.following)
        owner.append(np.full(len(best), step.session))
    return np.concatenate(forecast), np.concatenate(came), np.concatenate(owner)


def resampled(owner: NDArray[np.int64], draws: int = 500) -> list[NDArray[np.int64]]:
    """Draw samples of whole sessions, with replacement."""
    rng = np.random.default_rng(0)
    names, starts = np.unique(owner, return_index=True)
    ends = np.append(starts[1:], len(owner))
    rows = [np.arange(start, end) for start, end in zip(starts, ends, strict=True)]
    picks = rng.integers(len(names), size=(draws, len(names)))
    return [np.concatenate([rows[pick] for pick in picked]) for picked in picks]


def main(path: str, m: int = 5) -> None:
    import matplotlib.pyplot as plt

    pool = nq.ArmPool.open(path)
    held_out = 0 if pool.origin is None else pool.origin.held_out
    if not held_out:
        raise InvalidInput(
            f"{path} has no held-out sessions. Create it with "
            "`nextquery ingest LOG --hold-out 500 --out POOL`."
        )
    forecast, came, owner = forecasts(pool, held_out, m)
    samples = resampled(owner)
    errors = [expected_error(forecast[rows], came[rows]) for rows in samples]
    low, high = np.quantile(errors, [0.025, 0.975])
    steps, error = len(forecast) / m, expected_error(forecast, came)
    print(f"{held_out} held-out sessions, {steps:.0f} steps, {len(forecast)} forecasts (top {m})")
    print(f"expected calibration error {error:.4f} [{low:.4f}, {high:.4f}]")
    print(f"forecast on average {forecast.mean():.4f}, came {came.mean():.4f}")
    middle, share, bars = [], [], []
    print("forecast  came      95 %              n")
    for low_edge, high_edge in pairwise(EDGES.tolist()):
        inside = (forecast >= low_edge) & (forecast < high_edge)
        if inside.sum() < 10:
            continue
        means = [came[rows][inside[rows]].mean() for rows in samples if inside[rows].any()]
        bar = np.quantile(means, [0.025, 0.975])
        middle.append(forecast[inside].mean())
        share.append(came[inside].mean())
        bars.append(bar)
        print(
            f"{middle[-1]:.4f}    {share[-1]:.4f}    [{bar[0]:.4f}, {bar[1]:.4f}]    {inside.sum()}"
        )
    figure, axes = plt.subplots(figsize=(5, 5))
    spans = np.abs(np.array(bars).T - np.array(share))
    axes.plot([0, 1], [0, 1], color="grey", linestyle="--", label="perfect")
    axes.errorbar(middle, share, yerr=spans, marker="o", capsize=3, label="forecasts")
    axes.set_xlabel("forecast probability")
    axes.set_ylabel("share that came")
    top = 1.1 * max(*middle, *(bar[1] for bar in bars))
    axes.set_xlim(0, top)
    axes.set_ylim(0, top)
    axes.legend()
    axes.set_title(f"top {m} forecasts, {held_out} held-out sessions")
    figure.tight_layout()
    figure.savefig(FIGURE, dpi=120)
    print(f"wrote {FIGURE}")


if __name__ == "__main__":
    main(sys.argv[1])
