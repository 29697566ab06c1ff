"""What garbage collection leaves alone: modules and compiled code, which are never garbage.

Looking through them takes a tenth of a second, again and again, and stops every thread.
"""

import atexit
import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def loading() -> Iterator[None]:
    """Collect nothing while modules are imported, and leave out later what was there at the end."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        _leave_alone()
        if was_on:
            gc.enable()


def keep_what_is_loaded() -> None:
    """Exclude what exists now from garbage collection."""
    gc.collect()
    _leave_alone()


def _leave_alone() -> None:
    gc.freeze()
    atexit.unregister(gc.unfreeze)
    atexit.register(gc.unfreeze)  # some libraries complain about what is left at the end
