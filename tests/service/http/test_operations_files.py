"""The files in `operations`: every metric, path, option and setting that they name exists."""

import configparser
import json
import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest
import typer.main
import yaml  # type: ignore[import-untyped,unused-ignore]

import nextquery as nq
from nextquery import cli
from nextquery.service.engine.engine import Engine
from nextquery.service.http.app import create_app
from nextquery.service.http.metrics import Metrics
from nextquery.service.http.responses import NEEDED
from nextquery.service.log.store import Store
from nextquery.service.settings import PREFIX, EngineOptions, Settings

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "operations"
DEPLOY = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def measured(pets_pool: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """Every metric that a service has, with its labels."""
    store = Store.open(f"sqlite:///{tmp_path_factory.mktemp('metrics') / 'events.db'}")
    with Engine.start(nq.ArmPool.open(pets_pool), store, EngineOptions()) as engine:
        app = create_app(engine, Settings(), token="token")
        metrics: Metrics = app.state.served.metrics
        metrics.answered("/v1/stats", 200, 0.1)
        metrics.slate(fallback=False)
        metrics.offered("recommend", 1)
        metrics.feedback("recorded")
        metrics.shards_missed("refused")
        text = metrics.text().decode()
    store.close()
    found: dict[str, set[str]] = {"up": {"job"}}
    for name, labels in re.findall(r"^(\w+)(?:\{(.*)\})? ", text, flags=re.MULTILINE):
        found.setdefault(name, set()).update(re.findall(r'(\w+)="', labels))
    return found


def expressions() -> list[str]:
    rules = yaml.safe_load((FOLDER / "alerts.yml").read_text())["groups"][0]["rules"]
    panels = json.loads((FOLDER / "dashboard.json").read_text())["panels"]
    return [
        *(rule["expr"] for rule in rules),
        *(target["expr"] for panel in panels for target in panel["targets"]),
    ]


def test_every_metric_and_label_that_is_named_exists(measured: dict[str, set[str]]) -> None:
    assert len(expressions()) > 25
    for expression in expressions():
        assert expression.count("(") == expression.count(")")
        named = re.findall(r"\b(nextquery_\w+|up)\b(?:\{(.*?)\})?", expression)
        assert named, expression
        for metric, labels in named:
            assert metric in measured, metric
            assert set(re.findall(r"(\w+)=", labels)) <= measured[metric], expression
        for label in re.findall(r"by \((\w+)\)", expression):
            assert any(label in measured[metric] for metric, _ in named), expression
        for route in re.findall(r'route="([^"]*)"', expression):
            assert route in NEEDED


def test_counters_are_there_before_anything_happened() -> None:
    """`increase(x) == 0` holds for a counter at 0, and not for one that is not there."""
    text = Metrics().text().decode()
    for series in (
        'nextquery_feedback_total{status="recorded"} 0.0',
        'nextquery_slates_total{by="fallback"} 0.0',
        'nextquery_offered_total{by="forecast"} 0.0',
        'nextquery_shards_missed_total{answer="partial"} 0.0',
    ):
        assert series in text


def test_every_alert_says_what_to_do() -> None:
    rules = yaml.safe_load((FOLDER / "alerts.yml").read_text())["groups"][0]["rules"]
    assert len({rule["alert"] for rule in rules}) == len(rules)
    for rule in rules:
        assert set(rule["annotations"]) == {"summary", "todo"}
        assert rule["labels"]["severity"] in ("page", "ticket")
        assert f"`{rule['alert']}`" in DEPLOY, rule["alert"]


def test_the_panels_do_not_overlap() -> None:
    dashboard = json.loads((FOLDER / "dashboard.json").read_text())
    cells: set[tuple[int, int]] = set()
    for panel in dashboard["panels"]:
        at = panel["gridPos"]
        own = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert not own & cells
        assert max(x for x, _ in own) < 24
        cells |= own


def check_command(words: list[str]) -> None:
    """Parse a command line of ours, without running it."""
    command: Any = typer.main.get_command(cli.app)
    context = command.make_context("nextquery", words, resilient_parsing=True)
    name, chosen, rest = command.resolve_command(context, words)
    chosen.make_context(name, list(rest), resilient_parsing=False)


def test_the_unit_starts_commands_that_exist() -> None:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(FOLDER / "nextquery.service")
    service = unit["Service"]
    for key in ("ExecStartPre", "ExecStart"):
        program, *words = shlex.split(service[key])
        assert program == "/opt/nextquery/bin/nextquery"
        check_command(words)
    assert int(service["TimeoutStopSec"]) > 15  # docs/operate.md
    assert "MemoryDenyWriteExecute" not in service


def statements() -> list[tuple[str, str]]:
    lines = (FOLDER / "Dockerfile").read_text().replace("\\\n", " ").splitlines()
    return [
        (line.split(" ", 1)[0], line.split(" ", 1)[1])
        for line in lines
        if line and not line.startswith("#")
    ]


def test_the_container_file() -> None:
    for name, rest in statements():
        if name == "COPY" and "--from" not in rest:
            for source in rest.split()[:-1]:
                assert (ROOT / source).exists(), source
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    installs = [rest for name, rest in statements() if "pip install" in rest and name == "RUN"]
    assert len(installs) == 1
    assert installs[0].split("bin/")[1] in DEPLOY  # the documented line
    extras = re.search(r"\.\[(.*?)\]", installs[0])
    assert extras is not None
    assert set(extras[1].split(",")) <= set(project["optional-dependencies"])
    assert any(version in str(project["classifiers"]) for version in ("3.12",))
    by_name = dict(statements())
    check_command(json.loads(by_name["CMD"]))
    assert by_name["USER"] == "nextquery"
    assert "/readyz" in by_name["HEALTHCHECK"]
    assert NEEDED["/readyz"] == "public"


def test_the_settings_that_are_named_exist() -> None:
    text = DEPLOY + "".join(path.read_text() for path in FOLDER.iterdir() if path.is_file())
    named = set(re.findall(rf"\b{PREFIX}([A-Z_]+)", text))
    assert named
    assert named <= {name.upper() for name in Settings.model_fields} | {"CONFIG"}
