"""Other vectors for a pool: ids, counts and sessions stay; the oracle is the encoder itself."""

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import nextquery as nq
from nextquery.arms.pool import continued, encoder_digest, fingerprint
from nextquery.build.reencode import UNPLACED, reencode
from nextquery.build.update import update
from nextquery.cli import app
from nextquery.encode import LsaEncoder
from nextquery.errors import InvalidInput
from tests.build.updating.logs import SECRET, WORDS, pool_arms, pool_sessions, write
from tests.build.updating.test_update import ROWS, made

PAIRS = [f"{a} {b}" for a in WORDS for b in WORDS if a != b]


def test_ids_stay_and_vectors_are_the_encoders(tmp_path: Path) -> None:
    old = made(tmp_path, ROWS[:120]).pool
    LsaEncoder(dim=6).fit([*PAIRS, *WORDS]).save(tmp_path / "other")
    command = ["encode", str(tmp_path / "pool"), "--encoder", str(tmp_path / "other"), "--json"]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert (told["arms"], told["unplaced"], told["encoder"]["name"]) == (len(old), 0, "lsa")
    new = nq.ArmPool.open(tmp_path / "pool")
    new.verify()
    assert (list(new.texts), new.dim) == (list(old.texts), 6)
    assert pool_sessions(new) == pool_sessions(old)
    assert {text: known[:4] for text, known in pool_arms(new).items()} == {
        text: known[:4] for text, known in pool_arms(old).items()
    }
    encoder = LsaEncoder(dim=6).fit([*PAIRS, *WORDS])
    np.testing.assert_allclose(
        new.vectors, nq.ArmPool.from_vectors(new.texts, encoder.encode(list(new.texts))).vectors
    )
    before = continued(new.origin, fingerprint(old))
    assert before is not None
    assert (before.rows, before.encoder) == (old.rows_in_all, encoder_digest(old))
    assert encoder_digest(new) != encoder_digest(old)


def test_it_grows_afterwards_as_before(tmp_path: Path) -> None:
    """What was held back is still remembered, and new arms get vectors of the new encoder."""
    made(tmp_path, ROWS[:120])
    whole = made(tmp_path, ROWS, "whole").pool
    reencode(tmp_path / "pool", "lsa")
    done = update(write(tmp_path / "more.csv", ROWS[120:]), tmp_path / "pool", secret=SECRET)
    assert {text: known[:4] for text, known in pool_arms(done.pool).items()} == {
        text: known[:4] for text, known in pool_arms(whole).items()
    }


def test_what_has_no_place_is_no_arm_until_it_has_one(tmp_path: Path) -> None:
    old = made(tmp_path, ROWS[:120]).pool
    few = [text for text in PAIRS if "bird" not in text and "cat" not in text]
    LsaEncoder(dim=3).fit(few).save(tmp_path / "small")
    done = reencode(tmp_path / "pool", str(tmp_path / "small"))
    lost = [arm for arm, text in enumerate(old.texts) if set(text.split()) <= {"bird", "cat"}]
    assert done.pool.removed.tolist() == done.report[UNPLACED] == lost
    assert done.unplaced == len(lost) > 0
    again = reencode(tmp_path / "pool", str(tmp_path / "encoder"))
    assert (again.unplaced, again.pool.removed.tolist()) == (0, [])
    assert np.array_equal(again.pool.vectors, old.vectors)


def test_an_unknown_encoder_changes_nothing(tmp_path: Path) -> None:
    old = made(tmp_path, ROWS[:120]).pool
    with pytest.raises(InvalidInput, match="encoder must be"):
        reencode(tmp_path / "pool", "magic")
    assert fingerprint(nq.ArmPool.open(tmp_path / "pool")) == fingerprint(old)
