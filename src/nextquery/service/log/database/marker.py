"""A small file beside an SQLite store that says which store belongs there.

Without it, a service whose database file is gone would start with an empty one, and nobody would
notice that everything learnt is missing. Delete the marker to start a new log on purpose.
"""

import hashlib
import json
import logging
import os
import secrets
from pathlib import Path

from nextquery.errors import StorageError

_log = logging.getLogger("nextquery.service")


class Marker:
    """The file ``PATH-store.json`` beside the database ``PATH``.

    Read the marker before you look at the database: a marker is written after the tables, so a
    marker that was there first means that the tables must be there.
    """

    def __init__(self, database: Path) -> None:
        self.database = database
        self.path = database.with_name(f"{database.name}-store.json")
        self.store = self._read()

    def missing(self, what: str = "is missing") -> StorageError:
        """Return the error for a database that should be there."""
        return StorageError(
            f"the event log {self.database} {what}, but {self.path.name} beside it says that there "
            f"was one (store {self.store}). Restore {self.database.name} from a backup, or delete "
            f"{self.path.name} to start an empty log."
        )

    def check(self, store: str | None) -> None:
        """Raise an error if the database holds another store than the marker says, or none."""
        if self.store is None or self.store == store:
            return
        if store is None:
            raise self.missing("is empty")
        raise StorageError(
            f"{self.database} holds another event log (store {store}) than the one that was there "
            f"before (store {self.store}). Restore that one, or delete {self.path.name} to serve "
            "the new one."
        )

    def write(self, store: str) -> None:
        """Write the marker, unless it is there."""
        if self.store is not None:
            return
        content = {
            "about": f"{self.database.name} must be beside this file. See docs/operate.md.",
            "store": store,
        }
        temporary = self.path.with_name(f".{self.path.name}-{secrets.token_hex(4)}.tmp")
        try:
            descriptor = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
            with open(descriptor, "w", encoding="utf-8") as file:
                file.write(json.dumps(content, indent=2) + "\n")
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, self.path)
        except OSError as error:
            _log.warning(
                "cannot write %s (%s); a later start will not notice a missing event log",
                self.path,
                error.strerror,
            )
            temporary.unlink(missing_ok=True)

    def _read(self) -> str | None:
        try:
            found = json.loads(self.path.read_text(encoding="utf-8"))
            return str(found["store"])
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError):
            raise StorageError(
                f"{self.path} cannot be read. It names the event log that belongs beside it. If "
                f"{self.database.name} is the right one, delete {self.path.name}: it is written "
                "again."
            ) from None


def store_id(secret: str) -> str:
    """Return the public id of a store, which follows from its secret.

    >>> store_id("a") == store_id("a") != store_id("b"), len(store_id("a"))
    (True, 16)
    """
    return hashlib.sha256(f"nextquery store {secret}".encode()).hexdigest()[:16]
