"""Are forecasts well calibrated? A reliability curve on sessions used for nothing else.

``nextquery ingest topics --hold-out 2000 --out POOL`` hides the newest 2,000 sessions of two or
more queries from the encoder, and before them 1,000 for the warm start, which should not learn from
sessions that the encoder has seen (by the clock it reaches further back).
``python -m benchmarks.calibration POOL`` also
hides the newest sessions from the model and its calibration, and everything dated after the first
of them began. It forecasts every step of them by the clock, and writes
docs/figures/calibration.png.
"""

import argparse
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import nextquery as nq
from nextquery.errors import InvalidInput
from nextquery.forecast import expected_error
from nextquery.policies.registry import SERVED
from nextquery.warm_start import WARM_SESSIONS, Steps, places_with_next, walk

FIGURE = Path(__file__).parents[1] / "docs" / "figures" / "calibration.png"
EDGES = np.array([0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.2, 0.4, 1.0000001])


Forecasts = tuple[NDArray[np.float64], NDArray[np.bool_], NDArray[np.int64]]


def scored_sessions(lengths: NDArray[np.int64], held_out: int) -> NDArray[np.int64]:
    """Return the newest sessions with a next query, without those left to the warm start.

    >>> scored_sessions(np.array([2, 2, 1, 2, 1, 2]), held_out=5).tolist()
    [3, 5]
    """
    first = len(lengths) - held_out
    usable = first + np.flatnonzero(lengths[first:] >= 2)
    return usable[min(WARM_SESSIONS, len(usable) // 2) :]


def forecasts(pool: nq.ArmPool, scored: NDArray[np.int64], m: int) -> Forecasts:
    """Forecast m queries at every step of these sessions: probability, whether it came, session."""
    assert pool.origin is not None
    past = pool.origin.sessions.in_order_of_time()
    known = past.take(np.arange(scored[0]))
    if past.timed:
        known = known.before(float(past.times[scored[0]]))
    memory = nq.Memory(known, names=pool.origin.people)
    rec = nq.Recommender(pool, nq.MaxUtility(k=250), nq.policy(SERVED), memory=memory)
    rec.warm_start()
    memory.use(past)  # at every step, only what is dated before it counts
    places = places_with_next(memory.past, scored)
    steps = Steps.of(memory.past, places, pool.rows_in_all)
    owners = np.searchsorted(past.offsets, steps.places, side="right") - 1
    forecast, came, owner = [np.empty(0)], [np.empty(0, bool)], [np.empty(0, np.int64)]
    for session, step in zip(owners.tolist(), walk(rec, steps), strict=True):
        likely = rec.model_state.likeliest(step.candidates, step.context, m)
        forecast.append(np.array([probability for _, probability in likely]))
        came.append(np.array([arm == step.following for arm, _ in likely], bool))
        owner.append(np.full(len(likely), session))
    order = np.argsort(np.concatenate(owner), kind="stable")  # `resampled` takes whole sessions
    return (
        np.concatenate(forecast)[order],
        np.concatenate(came)[order],
        np.concatenate(owner)[order],
    )


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
    if pool.origin is None or not pool.origin.held_out:
        raise InvalidInput(
            f"{path} has no held-out sessions. Create it with "
            "`nextquery ingest LOG --hold-out 2000 --out POOL`."
        )
    lengths = pool.origin.sessions.in_order_of_time().lengths
    sessions = scored_sessions(lengths, pool.origin.held_out)
    forecast, came, owner = forecasts(pool, sessions, m)
    scored = len(sessions)
    samples = resampled(owner)
    errors = [expected_error(forecast[rows], came[rows]) for rows in samples]
    low, high = np.quantile(errors, [0.025, 0.975])
    steps, error = len(forecast) / m, expected_error(forecast, came)
    print(f"{scored} held-out sessions, {steps:.0f} steps, {len(forecast)} forecasts (top {m})")
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
    axes.set_title(f"top {m} forecasts, {scored} held-out sessions")
    figure.tight_layout()
    figure.savefig(FIGURE, dpi=120)
    print(f"wrote {FIGURE}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pool", help="a pool with held-out sessions")
    main(parser.parse_args().pool)
