"""What the counters say at a glance: percentiles from the buckets of a histogram."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from prometheus_client import Metric

SHARES = {"p50_ms": 0.5, "p95_ms": 0.95, "p99_ms": 0.99}


def percentile(buckets: Mapping[float, float], share: float) -> float | None:
    """The value below which a share of the observations lies, on a line within its bucket.

    Parameters
    ----------
    buckets : how many observations are at most each bound; the last bound may be infinite.
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
                return low  # no more is known than that it was longer than this
            inside = buckets[bound] - below
            return round(low + (bound - low) * (wanted - below) / inside if inside else low, 9)
        low, below = bound, buckets[bound]
    return low


def summary(metrics: Iterable[Metric]) -> dict[str, Any]:
    """Requests and latency by route, and how many slates the model did not answer."""
    requests: dict[str, int] = defaultdict(int)
    errors: dict[str, int] = defaultdict(int)
    buckets: dict[str, dict[float, float]] = defaultdict(dict)
    slates = {"model": 0, "fallback": 0}
    for metric in metrics:
        for sample in metric.samples:
            said = sample.labels
            if sample.name == "nextquery_requests_total":
                requests[said["route"]] += int(sample.value)
                errors[said["route"]] += int(sample.value) if said["status"] >= "500" else 0
            elif sample.name == "nextquery_request_seconds_bucket":
                buckets[said["route"]][float(said["le"])] = sample.value
            elif sample.name == "nextquery_slates_total":
                slates[said["by"]] += int(sample.value)
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
