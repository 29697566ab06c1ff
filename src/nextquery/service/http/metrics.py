"""Metrics for Prometheus, and a summary with percentiles from histogram buckets.

Requests are counted over all workers (prometheus-client's files in ``PROMETHEUS_MULTIPROC_DIR``,
which `server` sets). The state of the engine, such as its log position, is that of the worker
that answers.
"""

import math
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Literal, get_args

from prometheus_client import CollectorRegistry, Counter, Histogram, Metric, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from nextquery.learning import Status

if TYPE_CHECKING:
    from nextquery.service.engine.engine import Engine


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


_BUCKETS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)


class Metrics:
    """Counts requests, slates and feedback, in the text format of Prometheus.

    >>> metrics = Metrics()
    >>> metrics.answered("/v1/stats", 200, 0.004)
    >>> b'nextquery_requests_total{route="/v1/stats",status="200"} 1.0' in metrics.text()
    True
    """

    def __init__(self) -> None:
        self._own = CollectorRegistry()
        self._requests = Counter(
            "nextquery_requests", "Requests answered.", ["route", "status"], registry=self._own
        )
        self._seconds = Histogram(
            "nextquery_request_seconds",
            "Time to answer.",
            ["route"],
            buckets=_BUCKETS,
            registry=self._own,
        )
        self._slates = Counter(
            "nextquery_slates", "Slates, by what answered.", ["by"], registry=self._own
        )
        self._offered = Counter(
            "nextquery_offered",
            "Queries in answers, by what they are for: recommend or forecast.",
            ["by"],
            registry=self._own,
        )
        self._not_teaching = Counter(
            "nextquery_slates_not_teaching",
            "Slates that teach nothing, since their user, session or key taught enough that day.",
            registry=self._own,
        )
        self._feedback = Counter(
            "nextquery_feedback", "Feedback, by status.", ["status"], registry=self._own
        )
        self._missed = Counter(
            "nextquery_shards_missed",
            "Requests that met unavailable shards, by answer: refused or partial.",
            ["answer"],
            registry=self._own,
        )
        for counter, labels in (
            (self._slates, ("model", "fallback")),
            (self._offered, ("recommend", "forecast")),
            (self._feedback, get_args(Status)),
            (self._missed, ("refused", "partial")),
        ):
            for label in labels:  # at 0 from the start: no alert sees a counter that is not there
                counter.labels(label)
        self._registry = self._own
        if "PROMETHEUS_MULTIPROC_DIR" in os.environ:
            self._registry = CollectorRegistry()
            MultiProcessCollector(self._registry)  # type: ignore[no-untyped-call]

    def watch(self, engine: "Engine") -> None:
        """Add the state of an engine."""
        self._registry.register(_OfEngine(engine))

    def answered(self, route: str, status: int, seconds: float) -> None:
        """Count a request."""
        self._requests.labels(route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def slate(self, *, fallback: bool, teaches: bool = True) -> None:
        """Count a slate."""
        self._slates.labels("fallback" if fallback else "model").inc()
        if not teaches:
            self._not_teaching.inc()

    def offered(self, by: Literal["recommend", "forecast"], queries: int) -> None:
        """Count the queries of an answer, which may be fewer than were asked for."""
        self._offered.labels(by).inc(queries)

    def shards_missed(self, answer: Literal["refused", "partial"]) -> None:
        """Count a request that met unavailable shards."""
        self._missed.labels(answer).inc()

    def feedback(self, status: str) -> None:
        """Count feedback."""
        self._feedback.labels(status).inc()

    def summary(self) -> dict[str, object]:
        """Return requests, errors, latency by route and the share of fallbacks, of all workers."""
        return summary(self._registry.collect())

    def text(self) -> bytes:
        """Return all metrics as text."""
        return generate_latest(self._registry)


class _OfEngine(Collector):
    """The numbers and booleans in the health of an engine, each as a gauge."""

    def __init__(self, engine: "Engine") -> None:
        self._engine = engine

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield one gauge per value."""
        for name, value in asdict(self._engine.health()).items():
            if isinstance(value, bool | int | float):
                yield GaugeMetricFamily(
                    f"nextquery_{name}", f"{name} of the worker that answers.", value=float(value)
                )

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """Describe nothing in advance: only a scrape may ask the engine."""
        return iter(())
