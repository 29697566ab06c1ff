"""`nextquery verify` reads every byte and names every damaged file."""

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import nextquery as nq
from nextquery.cli import app
from nextquery.encode import LsaEncoder
from nextquery.errors import Damaged, NotAFolder


@pytest.fixture
def pool(tmp_path: Path) -> Path:
    rows = np.random.default_rng(0).normal(size=(50, 8))
    nq.ArmPool.from_vectors([f"query {i}" for i in range(50)], rows).save(tmp_path / "pool")
    return tmp_path / "pool"


def verify(folder: Path, *options: str) -> tuple[int, str, BaseException | None]:
    result = CliRunner().invoke(app, ["verify", str(folder), *options])
    return result.exit_code, result.stdout, result.exception


def flip_a_bit(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def test_an_intact_pool(pool: Path) -> None:
    code, shown, _ = verify(pool)
    assert code == 0
    assert "is intact: a nextquery pool" in shown
    code, shown, _ = verify(pool, "--json")
    told = json.loads(shown)
    files = [file for file in pool.iterdir() if file.name != "manifest.json"]
    assert told == {
        "folder": str(pool),
        "kind": "nextquery pool",
        "files": len(files),
        "bytes": sum(file.stat().st_size for file in files),
        "ok": True,
        "damaged": {},
    }


def test_one_changed_bit_in_any_file_is_found_and_named(pool: Path) -> None:
    for file in sorted(pool.glob("*-*")):
        if not (before := file.read_bytes()):
            continue
        flip_a_bit(file)
        code, shown, error = verify(pool, "--json")
        assert code != 0
        assert isinstance(error, Damaged)
        assert file.name in str(error)
        assert "Restore the folder from a backup, or build it again with nextquery ingest" in str(
            error
        )
        assert list(json.loads(shown)["damaged"]) == [file.name]
        file.write_bytes(before)
    assert verify(pool)[0] == 0


def test_all_damage_is_listed_at_once(pool: Path) -> None:
    vectors, texts, *_ = sorted(pool.glob("*-*"), key=lambda file: -file.stat().st_size)
    flip_a_bit(vectors)
    texts.write_bytes(b"short")
    sorted(pool.glob("removed-*"))[0].unlink()
    _, shown, error = verify(pool, "--json")
    damaged = json.loads(shown)["damaged"]
    assert len(damaged) == 3
    assert "SHA-256" in damaged[vectors.name]
    assert "bytes instead of" in damaged[texts.name]
    assert "3 of" in str(error)


def test_encoders_and_recommenders_too(pool: Path, tmp_path: Path) -> None:
    texts = ["red cat", "red dog", "blue cat", "blue dog"]
    LsaEncoder(dim=2).fit(texts).save(tmp_path / "encoder")
    assert "nextquery encoder" in verify(tmp_path / "encoder")[1]
    arms = nq.ArmPool.open(pool)
    nq.Recommender(arms, nq.MaxUtility(k=5), nq.LinUCB(), None).save(tmp_path / "rec")
    assert "nextquery recommender" in verify(tmp_path / "rec")[1]
    flip_a_bit(next((tmp_path / "rec").glob("policy-*")))
    assert isinstance(verify(tmp_path / "rec")[2], Damaged)


@pytest.mark.parametrize(
    "entry",
    [
        {"file": "../outside.npy", "bytes": 1, "sha256": "x"},
        {"file": "/etc/passwd", "bytes": 1, "sha256": "x"},
        {"file": "vectors.npy"},
        "vectors.npy",
    ],
)
def test_a_manifest_that_is_not_ours_is_an_error_without_traceback(
    pool: Path, entry: object
) -> None:
    manifest = json.loads((pool / "manifest.json").read_text())
    manifest["files"]["vectors.npy"] = entry
    (pool / "manifest.json").write_text(json.dumps(manifest))
    assert isinstance(verify(pool)[2], NotAFolder)
    with pytest.raises(NotAFolder, match=r"manifest\.json is invalid"):
        nq.ArmPool.open(pool)


def test_a_folder_of_something_else(tmp_path: Path) -> None:
    assert isinstance(verify(tmp_path / "nowhere")[2], NotAFolder)
    assert isinstance(verify(tmp_path)[2], NotAFolder)
