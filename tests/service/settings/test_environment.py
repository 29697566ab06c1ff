"""Variables that are not settings do not stop the start; wrong values of settings do."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from nextquery.errors import InvalidInput
from nextquery.service.load_settings import load


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def service(name: str, *, port: int, named: str = "", protocol: str = "tcp") -> dict[str, str]:
    """Return the variables that Kubernetes makes for a Service with one port."""
    prefix = name.upper().replace("-", "_")
    address, each = "10.0.0.1", f"{prefix}_PORT_{port}_{protocol.upper()}"
    variables = {
        f"{prefix}_SERVICE_HOST": address,
        f"{prefix}_SERVICE_PORT": str(port),
        f"{prefix}_PORT": f"{protocol}://{address}:{port}",
        each: f"{protocol}://{address}:{port}",
        f"{each}_PROTO": protocol,
        f"{each}_PORT": str(port),
        f"{each}_ADDR": address,
    }
    return variables | ({f"{prefix}_SERVICE_PORT_{named.upper()}": str(port)} if named else {})


@pytest.mark.parametrize(
    "variables",
    [
        service("nextquery", port=8000, named="http"),
        service("nextquery", port=8000) | service("nextquery", port=9000, named="metrics"),
        service("nextquery", port=5353, protocol="udp"),
        service("nextquery", port=36412, protocol="sctp"),
        service("nextquery-store", port=5432),
        {"NEXTQUERY_PORT": "tcp://[fd00::1]:8000", "NEXTQUERY_SERVICE_HOST": "fd00::1"},
    ],
)
def test_the_variables_of_a_kubernetes_service_are_ignored(
    variables: dict[str, str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    settings, origins = load()
    assert (settings.port, settings.host, origins["port"]) == (8000, "127.0.0.1", "default")
    assert caplog.messages == []
    Path("nextquery.toml").write_text("port = 9000\n")
    assert load().settings.port == 9000
    assert load({"port": "9100"}).settings.port == 9100


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("NEXTQUERY_PROT", "Did you mean NEXTQUERY_PORT?"),
        ("NEXTQUERY_TIMEOUTS", "Did you mean NEXTQUERY_TIMEOUT_S?"),
        ("NEXTQUERY_ZZZ_QQQ", "nextquery config show"),
    ],
)
def test_an_unknown_variable_is_reported_and_ignored(
    name: str, hint: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(name, "a secret, perhaps")
    assert load().settings.port == 8000
    [message] = caplog.messages
    assert name in message
    assert hint in message
    assert "secret" not in message


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("NEXTQUERY_PORT", "http://10.0.0.1:8000"),
        ("NEXTQUERY_PORT", "10.0.0.1"),
        ("NEXTQUERY_STORE", "tcp://10.0.0.1:5432"),  # Kubernetes writes this only to …_PORT
        ("NEXTQUERY_WORKERS", "many"),
    ],
)
def test_a_wrong_value_of_a_setting_is_an_error(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(InvalidInput, match=f"environment {name}"):
        load()


def test_serve_reports_it_as_json_and_other_commands_as_text() -> None:
    variables = os.environ | service("nextquery", port=8000) | {"NEXTQUERY_PROT": "1"}

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "nextquery", *arguments]
        return subprocess.run(command, capture_output=True, text=True, env=variables)

    served = run("serve")  # there is no pool to serve
    logged = json.loads(served.stderr.splitlines()[0])
    assert (logged["level"], "NEXTQUERY_PROT" in logged["message"]) == ("warning", True)
    assert "no pool to serve" in served.stderr
    shown = run("config", "show", "--json")
    assert json.loads(shown.stdout)["port"] == {"value": 8000, "from": "default"}
    assert shown.stderr.startswith("the environment variable NEXTQUERY_PROT is not a setting")
