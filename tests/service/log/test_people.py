"""People in the store: whose a decision is, and whose word is trusted."""

import json
from typing import Any

import pytest
from typer.testing import CliRunner

from nextquery.cli import app
from nextquery.errors import Conflict, InvalidInput, UnknownDecision
from nextquery.logs.cleaning import person_hash
from nextquery.service.log.store import Hashes, Store, request_hash
from tests.service.conftest import Start
from tests.service.worlds import TEXTS


def test_a_person_is_the_exact_id_of_an_owner() -> None:
    hashes = Hashes("of users", "of the store")
    ann = hashes.person("shop", "ann")
    assert ann == person_hash("of users", "shop", "ann") == hashes.person("shop", "ann")
    others = [
        ("shop", "Ann"),
        ("shop", " ann"),
        ("blog", "ann"),
        ("", "ann"),
        ("shop", "a\u200bnn"),
    ]
    assert len({ann, *(hashes.person(*other) for other in others)}) == 6
    assert ann != hashes.user("ann") == hashes.user("Ann")
    assert hashes.person("shop", "null") is None
    assert person_hash("another secret", "shop", "ann") != ann


def test_who_is_trusted_is_part_of_a_request() -> None:
    hashes = {
        request_hash("s", "q", 5, user, person) for user in "ab" for person in ("p", "q", None)
    }
    assert len(hashes) == 6


def test_a_decision_is_the_persons(store: Store, start: Start) -> None:
    engine = start(store)
    asked: dict[str, Any] = {
        "session_id": "s",
        "query": TEXTS[0],
        "user_id": "ann",
        "request_id": "r",
    }
    made = engine.recommend(**asked, trusted=True)
    stored = store.decision(made.decision_id)
    assert stored is not None
    assert stored.person == engine.hashes.person("", "ann")
    assert engine.recommend(**asked, trusted=True).repeated
    with pytest.raises(Conflict):
        engine.recommend(**asked)
    sent: dict[str, Any] = {"decision_id": made.decision_id, "accepted": None}
    for issued in (None, TEXTS[1]):
        with pytest.raises(UnknownDecision):
            engine.feedback(**sent, issued=issued, user_id="bob", trusted=True)
    assert engine.feedback(**sent, user_id="bob").status == "recorded"  # a bare claim is no person
    assert engine.feedback(**sent, user_id="ann", trusted=True).status == "repeated"


def test_an_id_is_checked_even_if_it_is_not_used(store: Store, start: Start) -> None:
    engine = start(store)
    for ask in (engine.submit_forecast, engine.submit_map, engine.submit_recommend):
        with pytest.raises(InvalidInput, match="user_id"):
            ask(session_id="s", query=TEXTS[0], user_id="a\nb")


def test_the_command_marks_and_lists_trusted_keys(sqlite: Store) -> None:
    where = ["--store", sqlite.engine.url.render_as_string()]

    def run(*arguments: str) -> str:
        done = CliRunner().invoke(app, ["keys", *arguments, *where])
        assert done.exit_code == 0, done.output
        return done.output

    assert json.loads(run("create", "box", "--json"))["trusted_users"] is False
    assert "user ids are trusted" not in run("create", "box")
    assert "user ids are trusted" in run("create", "back end", "--trusted-users")
    listed = json.loads(run("list", "--json"))
    assert [key["trusted_users"] for key in listed] == [False, False, True]
    assert run("list").count("yes") == 1
