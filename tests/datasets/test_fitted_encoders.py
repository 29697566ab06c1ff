"""The encoder that comes with topics: what it covers, and that `ingest` takes it."""

import json
from pathlib import Path

import numpy as np
import pytest

from nextquery import datasets, folders
from nextquery.build.ingest import ingest
from nextquery.datasets import unpacked
from nextquery.encode import Encoder


@pytest.mark.soak
def test_it_represents_every_word_of_the_log(tmp_path: Path) -> None:
    found = unpacked("topics", tmp_path)
    assert found is not None
    encoder = Encoder.load(found)
    assert encoder.name == "tuned"
    words = sorted({word for row in datasets.load("topics") for word in row.query.split()})
    assert len(words) > 1000
    assert np.allclose(np.linalg.norm(encoder.encode(words), axis=1), 1.0, atol=1e-6)


def test_other_logs_have_none(tmp_path: Path) -> None:
    assert unpacked("core", tmp_path) is None
    assert unpacked(None, tmp_path) is None
    assert not list(tmp_path.iterdir())


def test_ingest_takes_it(tmp_path: Path) -> None:
    stages: list[str] = []
    done = ingest(
        str(datasets.path("topics")),
        tmp_path / "pool",
        progress=lambda stage, share: stages.append(stage),
    )
    assert done.report["encoder"]["name"] == "tuned"
    assert stages
    assert not [stage for stage in stages if stage.startswith("fit")]


@pytest.mark.soak
def test_it_makes_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        ingest(str(datasets.path("topics")), tmp_path / name)
    one, two = (
        json.loads((tmp_path / name / folders.MANIFEST).read_text()) for name in ("one", "two")
    )
    assert one == two  # with the checksum of every file


class Fitting(Exception):
    """The fit of an encoder has begun."""


def test_held_out_sessions_need_an_encoder_of_their_own(tmp_path: Path) -> None:
    def stop_at_the_fit(stage: str, share: float | None) -> None:
        if stage.startswith("fit"):
            raise Fitting

    with pytest.raises(Fitting):
        ingest(str(datasets.path("topics")), tmp_path, hold_out=10, progress=stop_at_the_fit)
