"""Modules and compiled code are left out of garbage collection; later garbage is not."""

import gc
import weakref
from collections.abc import Iterator

import pytest

from nextquery.service.server import keep_what_is_loaded, loading


class Ring:
    """An object that only garbage collection can free: it refers to itself."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """What the tests leave out is collected as before, once they have ended."""
    yield
    gc.unfreeze()
    assert gc.isenabled()


def test_nothing_is_collected_while_modules_are_loaded() -> None:
    with loading():
        assert not gc.isenabled()
        kept = weakref.ref(Ring())
    assert gc.isenabled()
    gc.collect()
    assert kept() is not None  # left out from then on, as modules are


def test_it_is_on_again_after_an_error() -> None:
    with pytest.raises(ImportError), loading():
        raise ImportError
    assert gc.isenabled()


def test_garbage_is_collected_before_and_after() -> None:
    before = weakref.ref(Ring())
    keep_what_is_loaded()
    assert before() is None
    assert gc.get_freeze_count() > 10_000
    after = weakref.ref(Ring())
    gc.collect()
    assert after() is None
