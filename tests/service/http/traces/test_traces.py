"""Traces with the real SDK: every request has its steps, a caller's trace goes on, and no text."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from starlette.testclient import TestClient

from nextquery.service import tracing
from nextquery.service.engine.engine import Engine
from nextquery.service.http.app import create_app
from nextquery.service.settings import Settings
from tests.service.http.conftest import BEARER, LOCAL, TOKEN
from tests.service.http.test_routes import feedback, recommend


@pytest.fixture
def spans() -> Iterator[InMemorySpanExporter]:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracing.start(provider)
    yield exporter
    tracing.stop()


@pytest.fixture
def traced(spans: InMemorySpanExporter, engine: Engine) -> Iterator[TestClient]:
    app = create_app(engine, Settings(), token=TOKEN)
    with TestClient(app, base_url=LOCAL, headers=BEARER) as opened:
        yield opened


def trees(spans: InMemorySpanExporter) -> dict[str, list[ReadableSpan]]:
    """Return the steps of each finished request, by the id of its span, in order of time."""
    finished = spans.get_finished_spans()
    roots = {f"{span.context.span_id}": span for span in finished if " /" in span.name}
    found: dict[str, list[ReadableSpan]] = {name: [span] for name, span in roots.items()}
    for span in finished:
        if " /" not in span.name:
            assert span.parent is not None
            found[f"{span.parent.span_id}"].append(span)
    return {name: sorted(all, key=lambda one: one.start_time or 0) for name, all in found.items()}


def test_a_recommendation_is_scan_slate_and_commit(
    traced: TestClient, spans: InMemorySpanExporter
) -> None:
    slate = recommend(traced, user_id="ann")
    feedback(traced, slate["decision_id"], slate["recommendations"][0]["arm_id"])
    found = sorted(trees(spans).values(), key=lambda tree: tree[0].start_time or 0)
    assert [[span.name for span in tree] for tree in found] == [
        ["POST /v1/recommend", "scan", "slate", "commit"],
        ["POST /v1/feedback", "commit"],
    ]
    for root, *steps in found:
        assert root.attributes is not None
        assert root.attributes["http.response.status_code"] == 200
        assert root.attributes["request_id"]
        assert all((root.start_time or 0) <= (step.start_time or 0) for step in steps)
    told = str([span.to_json() for span in spans.get_finished_spans()])
    for private in ("cat food", "ann", slate["recommendations"][0]["text"], slate["decision_id"]):
        assert f'"{private}"' not in told


def test_requests_of_one_batch_have_their_own_steps(
    traced: TestClient, spans: InMemorySpanExporter
) -> None:
    with ThreadPoolExecutor(6) as threads:
        list(threads.map(lambda n: recommend(traced, session_id=f"s{n}"), range(12)))
    found = trees(spans)
    assert len(found) == 12
    for tree in found.values():
        assert sorted(span.name for span in tree[1:]) == ["commit", "scan", "slate"]
        assert len({span.context.trace_id for span in tree}) == 1


def test_the_trace_of_a_caller_goes_on(traced: TestClient, spans: InMemorySpanExporter) -> None:
    trace, parent = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
    traced.get("/healthz", headers={"traceparent": f"00-{trace}-{parent}-01"})
    traced.get("/v1/a%20private%20query")
    known, unknown = spans.get_finished_spans()
    assert f"{known.context.trace_id:032x}" == trace
    assert known.parent is not None
    assert f"{known.parent.span_id:016x}" == parent
    assert unknown.name == "GET other"


def test_it_is_off_unless_it_is_configured(engine: Engine) -> None:
    app = create_app(engine, Settings(), token=TOKEN)
    assert not tracing.on()
    assert "Traces" not in str(app.user_middleware)


class Collector(BaseHTTPRequestHandler):
    """A collector that takes spans as OTLP."""

    received: list[tuple[str, bytes]]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        Collector.received.append((self.path, body))
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


def test_a_collector_gets_them(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    Collector.received = []
    with ThreadingHTTPServer(("127.0.0.1", 0), Collector) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv(tracing.VARIABLES[0], f"http://127.0.0.1:{server.server_address[1]}")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "none")
        app = create_app(engine, Settings(), token=TOKEN)
        with TestClient(app, base_url=LOCAL, headers=BEARER) as client:
            recommend(client)
        server.shutdown()  # the end of the application has sent what was left
    assert {path for path, _ in Collector.received} == {"/v1/traces"}
    sent = b"".join(body for _, body in Collector.received)
    assert b"POST /v1/recommend" in sent
    assert b"nextquery" in sent
    assert not tracing.on()
