"""API keys: shown once, stored as hashes, rejected once revoked."""

import time
from pathlib import Path

import pytest
import sqlalchemy as sa
from typer.testing import CliRunner

from nextquery.cli import app
from nextquery.errors import InvalidInput
from nextquery.service.http import keys as module
from nextquery.service.http.keys import KeyRing
from nextquery.service.log.schema import keys as table
from nextquery.service.log.store import Store
from nextquery.service.server import keys_needed
from nextquery.service.settings import Settings


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.open(f"sqlite:///{tmp_path / 'keys.db'}")


def test_a_key_is_found_by_its_text_alone(store: Store) -> None:
    ring = KeyRing(store)
    key, text = ring.create(name="search box", scope="write")
    other, _ = ring.create(name="other", scope="read")
    assert ring.find(text) == key
    prefix = text.rsplit("_", 1)[0]
    for wrong in (
        "",
        "nq_",
        text + "x",
        text[:-1],
        text.replace(key.id, other.id),
        f"{prefix}_\ud800",
    ):
        assert ring.find(wrong) is None, wrong
    assert [k.name for k in ring.list()] == ["search box", "other"]


def test_the_store_holds_no_secret(store: Store) -> None:
    key, text = KeyRing(store).create(name="x", scope="admin")
    secret = text.removeprefix(f"nq_{key.id}_")
    with store.reading() as connection:
        row = connection.execute(sa.select(table)).one()
    assert secret not in str(row)
    salt, _, digest = row.hash.partition("$")
    assert len(salt) == 32
    assert len(digest) == 64


def test_revoked_keys_are_refused_by_other_processes_too(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = KeyRing(store), KeyRing(store)
    key, text = here.create(name="x", scope="read")
    assert there.find(text) is not None
    here.revoke(key.id)
    monkeypatch.setattr(module, "FRESH_S", 0.0)
    assert there.find(text) is None
    assert here.revoke(key.id).revoked == here.list()[0].revoked  # revoking again changes nothing


def test_a_rotated_key_has_a_successor_and_an_end(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    ring = KeyRing(store)
    old, old_text = ring.create(name="box", scope="write", owner="shop", trusted_users=True)
    new, text = ring.rotate(old.id, overlap_s=3600)
    assert (new.name, new.scope, new.owner, new.trusted_users) == ("box", "write", "shop", True)
    assert new.id != old.id
    assert text != old_text
    assert ring.find(text) == new
    assert ring.find(old_text) is not None  # both, for an hour
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 3601)
    assert ring.find(old_text) is None
    assert ring.find(text) == new
    with pytest.raises(InvalidInput, match="has ended"):
        ring.rotate(old.id, overlap_s=0)


def test_revoking_ends_an_overlap_at_once(store: Store) -> None:
    ring = KeyRing(store)
    old, old_text = ring.create(name="box", scope="write")
    ring.rotate(old.id, overlap_s=3600)
    ring.revoke(old.id)
    assert ring.find(old_text) is None


def test_mistakes(store: Store) -> None:
    ring = KeyRing(store)
    with pytest.raises(InvalidInput, match="read, write, admin"):
        ring.create(name="x", scope="root")
    for name in ("", "a\nb", "x" * 201):
        with pytest.raises(InvalidInput, match="name"):
            ring.create(name=name, scope="read")
    with pytest.raises(InvalidInput, match="keys list"):
        ring.revoke("nobody")
    with pytest.raises(InvalidInput, match="keys list"):
        ring.rotate("nobody", overlap_s=1)
    with pytest.raises(InvalidInput, match="overlap_s"):
        ring.rotate("nobody", overlap_s=-1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["", "--trusted-users"], "name of a key"),
        (["box", "--scope", "root"], "read, write, admin"),
        (["box", "--owner", "a\nb"], "owner of a key"),
    ],
)
def test_a_key_that_cannot_be_created_leaves_no_store(
    tmp_path: Path, arguments: list[str], message: str
) -> None:
    url = f"sqlite:///{tmp_path / 'new.db'}"
    with pytest.raises(InvalidInput, match=message):
        CliRunner().invoke(
            app, ["keys", "create", *arguments, "--store", url], catch_exceptions=False
        )
    assert not list(tmp_path.iterdir())


def test_keys_are_off_on_loopback_alone(store: Store) -> None:
    ring = KeyRing(store)
    assert keys_needed(Settings(), ring) is None
    assert keys_needed(Settings(host="localhost", keys="off"), ring) is None
    with pytest.raises(InvalidInput, match="everyone on the network"):
        keys_needed(Settings(host="0.0.0.0", keys="off"), ring)
    with pytest.raises(InvalidInput, match="keys create"):
        keys_needed(Settings(host="0.0.0.0"), ring)
    key, _ = ring.create(name="x", scope="read")
    assert keys_needed(Settings(host="0.0.0.0"), ring) is ring
    assert keys_needed(Settings(), ring) is ring  # a key exists, so keys are required
    assert keys_needed(Settings(keys="off"), ring) is None
    ring.revoke(key.id)
    with pytest.raises(InvalidInput, match="the store has none"):
        keys_needed(Settings(keys="on"), ring)
