"""Every error nextquery raises on purpose.

::

    NextqueryError
    ├── InvalidInput          a value, row or option that cannot be used   (also a ValueError)
    │   └── NotInSlate        feedback names an arm that was not shown
    ├── UnknownDecision       feedback names a decision nobody made        (also a LookupError)
    ├── Conflict              a second word that contradicts the first one
    ├── ClusterUnavailable    no cluster, or not all of it, in time        (also a ConnectionError)
    └── StorageError          files that cannot be used                    (also an OSError)
        ├── NotAFolder        foreign, incomplete, or written by another format version
        ├── Damaged           ours, but the bytes are not the ones that were written
        └── StoreUnavailable  the database does not take this now: nothing was written, try again

Each message says what was received, what is allowed, and what to do next.
"""

__all__ = [
    "ClusterUnavailable",
    "Conflict",
    "Damaged",
    "InvalidInput",
    "NextqueryError",
    "NotAFolder",
    "NotInSlate",
    "StorageError",
    "StoreUnavailable",
    "UnknownDecision",
]


class NextqueryError(Exception):
    """The root: catch it to catch everything nextquery raises on purpose."""


class InvalidInput(NextqueryError, ValueError):
    """A value, row or option that cannot be used."""


class NotInSlate(InvalidInput):
    """Feedback that names an arm which was not among those shown."""


class UnknownDecision(NextqueryError, LookupError):
    """Feedback for a decision that the store does not hold."""


class Conflict(NextqueryError):
    """A second word that contradicts the first: another arm accepted, another request so named."""


class ClusterUnavailable(NextqueryError, ConnectionError):
    """The cluster, or a part of it, does not answer in time; trying again may be right."""


class StorageError(NextqueryError, OSError):
    """Files that cannot be used."""


class NotAFolder(StorageError):
    """A folder that is foreign, incomplete, or of another format version."""


class Damaged(StorageError):
    """A folder of ours whose bytes are not the ones that were written."""


class StoreUnavailable(StorageError):
    """The database does not take this now; nothing was written, and trying again is right."""
