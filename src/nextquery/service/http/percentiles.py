"""A summary of the metrics, with percentiles from the buckets of a histogram."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping

from prometheus_client import Metric

SHARES = {"p50_ms": 0.5, "p95_ms": 0.95, "p99_ms": 0.99}


def percentile(buckets: Mapping[float, float], share: float) -> float | None:
    """Return the value below which a share of the observations lies, linear within its bucket.

    Parameters
    ----------
    buckets : number of observations up to each bound; the last bound may be infinite.
    share : in [0, 1].

    >>> percentile({0.1: 50.0, 0.2: 100.0, float("inf"): 100.0}, 0.75)
    0.15
    >>> percentile({}, 0.5) is None
    True
    """
    bounds = sorted(buckets)
    if not bounds or not buckets[bounds[-1]]:
        return None
    wanted, low, below = share * buckets[bounds[-1]], 0.0, 0.0
    for bound in bounds:
        if buckets[bound] >= wanted:
            if math.isinf(bound):
                return low  # all we know is that it is above this bound
            inside = buckets[bound] - below
            return round(low + (bound - low) * (wanted - below) / inside if inside else low, 9)
        low, below = bound, buckets[bound]
    return low


def summary(metrics: Iterable[Metric]) -> dict[str, object]:
    """Return requests and latency by route, and the share of slates without the model."""
    requests: dict[str, int] = defaultdict(int)
    errors: dict[str, int] = defaultdict(int)
    buckets: dict[str, dict[float, float]] = defaultdict(dict)
    slates = {"model": 0, "fallback": 0}
    for metric in metrics:
        for sample in metric.samples:
            labels = sample.labels
            if sample.name == "nextquery_requests_total":
                requests[labels["route"]] += int(sample.value)
                errors[labels["route"]] += int(sample.value) if labels["status"] >= "500" else 0
            elif sample.name == "nextquery_request_seconds_bucket":
                buckets[labels["route"]][float(labels["le"])] = sample.value
            elif sample.name == "nextquery_slates_total":
                slates[labels["by"]] += int(sample.value)
    total = sum(slates.values())
    return {
        "requests": sum(requests.values()),
        "errors": sum(errors.values()),
        "slates": total,
        "fallback_share": slates["fallback"] / total if total else None,
        "routes": [
            {
                "route": route,
                "requests": requests[route],
                "errors": errors[route],
                **{name: _ms(percentile(buckets[route], share)) for name, share in SHARES.items()},
            }
            for route in sorted(requests, key=lambda one: (-requests[one], one))
        ],
    }


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else round(1000 * seconds, 3)
