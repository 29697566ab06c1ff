"""Metrics for Prometheus.

Requests are counted over all workers (prometheus-client's files in ``PROMETHEUS_MULTIPROC_DIR``,
which `server` sets). The state of the engine, such as its log position, is that of the worker that
answers.
"""

import os
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Literal, get_args

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from nextquery.learning import Status
from nextquery.service.http.percentiles import summary

if TYPE_CHECKING:
    from nextquery.service.engine.engine import Engine

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
