"""Numbers for Prometheus.

Requests are counted over all workers when there are several (prometheus-client's files in
``PROMETHEUS_MULTIPROC_DIR``, which `server` sets). What the engine knows of itself, such as how far
it has read the log, is that of the worker which answers.
"""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from nextquery.service.http.percentiles import summary

if TYPE_CHECKING:
    from nextquery.service.answer.engine import Engine

_BUCKETS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)


class Metrics:
    """Counts what happens and says it in the text format.

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
            "nextquery_slates", "Slates, by who answered.", ["by"], registry=self._own
        )
        self._feedback = Counter(
            "nextquery_feedback", "Feedback, by what became of it.", ["status"], registry=self._own
        )
        self._missed = Counter(
            "nextquery_shards_missed",
            "Requests that met shards away, by what became of them: refused or partial.",
            ["answer"],
            registry=self._own,
        )
        self._said = self._own
        if "PROMETHEUS_MULTIPROC_DIR" in os.environ:
            self._said = CollectorRegistry()
            MultiProcessCollector(self._said)  # type: ignore[no-untyped-call]

    def watch(self, engine: "Engine") -> None:
        """Say from now on what the engine knows of itself."""
        self._said.register(_OfEngine(engine))

    def answered(self, route: str, status: int, seconds: float) -> None:
        """A request was answered."""
        self._requests.labels(route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def slate(self, *, fallback: bool) -> None:
        """A slate was given."""
        self._slates.labels("fallback" if fallback else "model").inc()

    def shards_missed(self, answer: Literal["refused", "partial"]) -> None:
        """A request met shards that are away."""
        self._missed.labels(answer).inc()

    def feedback(self, status: str) -> None:
        """Feedback was taken."""
        self._feedback.labels(status).inc()

    def summary(self) -> dict[str, Any]:
        """Requests, errors, latency by route and the share of fallbacks, over all workers."""
        return summary(self._said.collect())

    def text(self) -> bytes:
        """All of it."""
        return generate_latest(self._said)


class _OfEngine(Collector):
    """The numbers and yes-or-no values in the engine's health, each as a gauge."""

    def __init__(self, engine: "Engine") -> None:
        self._engine = engine

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """One gauge a value."""
        for name, value in self._engine.health().items():
            if isinstance(value, bool | int | float):
                yield GaugeMetricFamily(
                    f"nextquery_{name}", f"{name} of the worker that answers.", value=float(value)
                )

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """Nothing in advance: asking the engine must wait until somebody scrapes."""
        return iter(())
