from itertools import pairwise

import pytest

from nextquery import datasets
from nextquery.errors import InvalidInput


def test_the_sample_is_whole_and_small() -> None:
    rows = datasets.load("sample")
    assert datasets.path().stat().st_size < 3_000_000
    ids = [row.session_id for row in rows]
    assert len(set(ids)) == 4045
    assert sum(i.startswith("core-") for i in set(ids)) == 45
    assert len([1 for a, b in pairwise(ids) if a != b]) + 1 == 4045  # rows are grouped by session
    for before, after in pairwise(rows):
        assert before.session_id != after.session_id or before.time <= after.time
        assert after.query.strip()


def test_its_licences_are_in_the_same_folder() -> None:
    text = datasets.path().with_name("LICENSES.md").read_text()
    assert "MIT" in text
    assert "CC0" in text
    assert "stand-in" in text


def test_the_error_for_an_unknown_data_set_lists_the_known_ones() -> None:
    with pytest.raises(InvalidInput, match="one of sample; received 'aol'"):
        datasets.load("aol")
