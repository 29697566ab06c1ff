"""Spans of OpenTelemetry, if it is configured; off, each costs one comparison.

Tracing is on if the environment names a collector in OpenTelemetry's own way
(``OTEL_EXPORTER_OTLP_ENDPOINT``, ``OTEL_EXPORTER_OTLP_TRACES_ENDPOINT``), and off otherwise. A
request waits in threads that work for many requests at once, so what it waits for is attached to it
here: each step of a batch is a span of every request in the batch.
"""

import os
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

from nextquery.checks import installed

VARIABLES = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
_OFF: AbstractContextManager[None] = nullcontext()


class _Traces:
    """The tracer in use, and to which trace the things in hand belong."""

    provider: Any = None
    tracer: Any = None
    contexts: ClassVar[WeakKeyDictionary[Any, Any]] = WeakKeyDictionary()


def start_if_configured(environment: Mapping[str, str] = os.environ) -> bool:
    """Send spans to the collector that the environment names, if it names one.

    >>> start_if_configured({})
    False
    """
    if _Traces.tracer is None and any(environment.get(name) for name in VARIABLES):
        installed("otel", "opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http")
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        provider = TracerProvider(resource=_resource())
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        start(provider)
    return _Traces.tracer is not None


def _resource() -> Any:
    from opentelemetry.sdk.resources import Resource

    named = {} if os.environ.get("OTEL_SERVICE_NAME") else {"service.name": "nextquery"}
    return Resource.create(named)


def start(provider: Any) -> None:
    """Make spans with a provider of the SDK."""
    _Traces.provider, _Traces.tracer = provider, provider.get_tracer("nextquery")


def stop() -> None:
    """Send what is left, and make no more spans."""
    provider, _Traces.provider, _Traces.tracer = _Traces.provider, None, None
    if provider is not None:
        provider.shutdown()


def on() -> bool:
    """Whether spans are made."""
    return _Traces.tracer is not None


@contextmanager
def request(name: str, headers: Mapping[str, str]) -> Iterator[Any]:
    """Make the span of a request; it continues the trace that the caller's headers name."""
    from opentelemetry.propagate import extract
    from opentelemetry.trace import SpanKind

    caller = extract(headers)
    with _Traces.tracer.start_as_current_span(name, context=caller, kind=SpanKind.SERVER) as span:
        yield span


def attach(thing: Any, like: Any = None) -> None:
    """Say that something belongs to the request in hand, or to that of another thing."""
    if _Traces.tracer is None:
        return
    if like is not None:
        context = _Traces.contexts.get(like)
    else:
        from opentelemetry.context import get_current
        from opentelemetry.trace import get_current_span

        of_a_request = get_current_span().get_span_context().is_valid
        context = get_current() if of_a_request else None
    if context is not None:
        _Traces.contexts[thing] = context


def step(name: str, things: Iterable[Any], **attributes: int | str) -> AbstractContextManager[None]:
    """Make a span for the request of each thing, as long as the block takes.

    >>> with step("scan", [], batch=0):
    ...     on()
    False
    """
    return _OFF if _Traces.tracer is None else _step(name, list(things), attributes)


@contextmanager
def _step(name: str, things: list[Any], attributes: dict[str, int | str]) -> Iterator[None]:
    begin = time.time_ns()
    try:
        yield
    finally:
        tracer, end = _Traces.tracer, time.time_ns()
        for thing in things:
            context = _Traces.contexts.get(thing)
            if context is not None and tracer is not None:
                tracer.start_span(
                    name, context=context, start_time=begin, attributes=attributes
                ).end(end)
