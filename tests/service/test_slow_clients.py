"""Hundreds of half-sent requests against a service that may open few files."""

import json
import socket
from contextlib import ExitStack
from pathlib import Path

import nextquery as nq
from nextquery.service.process import ServiceProcess

FILES = 128
ATTACKERS = 3 * FILES


class FewFiles(ServiceProcess):
    """A service that may open `FILES` files."""

    def command(self) -> list[str]:
        return ["sh", "-c", f'ulimit -n {FILES}; exec "$@"', "sh", *super().command()]


def test_half_sent_requests_do_not_stop_the_service(pets_pool: Path, tmp_path: Path) -> None:
    store, log = f"sqlite:///{tmp_path / 'events.db'}", tmp_path / "log"
    with (
        FewFiles(pets_pool, store, log=log) as service,
        nq.Client(service.url, timeout=60, retries=20) as client,
        ExitStack() as stack,
    ):
        assert client.recommend("cat food", session_id="before").recommendations
        for number in range(ATTACKERS):
            held = socket.create_connection(("127.0.0.1", service.port))
            stack.callback(held.close)
            held.sendall(b"GET / HTTP/1.1\r\nHost: local" if number % 2 else b"")
            if number % 64 == 0:
                slate = client.recommend("cat food", session_id=f"s{number}")
                arm = slate.recommendations[0].arm_id
                assert client.feedback(slate.decision_id, accepted=arm) == "recorded"
        with nq.Client(service.url, timeout=60, retries=20) as new:
            assert new.recommend("dog food", session_id="after").recommendations
        assert service.stop() == 0
    text = log.read_text()
    lines = [json.loads(line) for line in text[text.index("{") :].splitlines()]
    assert any("connections are in use" in line["message"] for line in lines)
    assert not [line for line in lines if line["level"] == "error"]
    assert len(text) < 50_000
