"""`nextquery block`, as an operator uses it beside a running service."""

import json
from pathlib import Path

import nextquery as nq
from nextquery.service.engine.engine import Engine
from nextquery.service.log.store import Store
from tests.command_line import run_here
from tests.service.worlds import options


def test_queries_and_patterns_from_the_command_line(pets_pool: Path, tmp_path: Path) -> None:
    url, files = f"sqlite:///{tmp_path / 'events.db'}", tmp_path / "patterns.txt"
    files.write_text("dog toy?\n\n*vet\n")
    store = Store.open(url)

    def block(*arguments: str) -> str:
        done = run_here("block", str(pets_pool), *arguments, "--store", url)
        assert done.returncode == 0, done.stderr
        return done.stdout

    with Engine.start(nq.ArmPool.open(pets_pool), store, options(poll_s=60.0)) as engine:

        def shown(session: str) -> list[str]:
            slate = engine.recommend(session_id=session, query="dog food", m=20)
            return [entry.text.lower() for entry in slate.recommendations]

        assert {"dog house", "dog toys", "dog vet"} <= set(shown("before"))
        said = block("Dog HOUSE!", "--pattern", "nam*", "--pattern-file", str(files))
        assert "4 blocked; 1 queries and 3 patterns are blocked now" in said
        after = shown("after")
        assert after
        assert not any(text.endswith(("vet", "names")) for text in after)
        assert not {"dog house", "dog toys"} & set(after)
        assert block("--list").splitlines()[0] == "query\tdog house"
        assert json.loads(block("--list", "--json"))["patterns"] == ["*vet", "dog toy?", "nam*"]
        block("dog house", "--pattern", "*VET", "--remove")
        assert {"dog house", "dog vet"} <= set(shown("again"))
    refused = run_here("block", str(pets_pool), "x", "--pattern", "**", "--store", url)
    assert refused.returncode == 3
    assert "would match every query" in refused.stderr
    nothing = run_here("block", str(pets_pool), "--store", url)
    assert "nothing to block" in nothing.stderr
    assert json.loads(block("--list", "--json"))["queries"] == []  # nothing of it was written
    store.close()
