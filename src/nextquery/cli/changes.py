"""What commands that change a store share: who runs them, and how their changes are written."""

import getpass
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from nextquery.service.log.events import By
    from nextquery.service.log.store import Store
    from nextquery.service.log.writer import Write

Result = TypeVar("Result")


def this_user() -> "By":
    """Return who runs the command, as the operating system names them."""
    from nextquery.service.log.events import By

    try:
        name = getpass.getuser()
    except (OSError, KeyError):  # a container may run under a number without a name
        name = str(os.getuid()) if hasattr(os, "getuid") else "unknown"
    return By("command line", name)


def write_all(store: "Store", changes: Sequence["Write[Result]"]) -> list[Result]:
    """Write changes in order, and return what each returns; an error ends it."""
    from nextquery.service.log.store import Clock
    from nextquery.service.log.writer import Writer

    writer = Writer(store, Clock(), written=lambda: None)
    try:
        return [future.result() for future in writer.submit_many(list(changes))]
    finally:
        writer.close()
