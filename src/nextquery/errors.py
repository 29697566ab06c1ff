"""Every error that nextquery raises on purpose.

::

    NextqueryError
    ├── InvalidInput          an invalid value, row or option              (also a ValueError)
    │   ├── NotInSlate        feedback names an arm that was not shown
    │   └── WrongSignature    a user_signature that does not prove its user_id
    ├── UnknownDecision       feedback names an unknown decision           (also a LookupError)
    ├── Conflict              feedback or a request contradicts an earlier one
    ├── ClusterUnavailable    the cluster, or part of it, is unavailable   (also a ConnectionError)
    └── StorageError          files that cannot be used                    (also an OSError)
        ├── NotAFolder        foreign, incomplete, or written by another format version
        ├── Damaged           written by nextquery, but the bytes have changed
        └── StoreUnavailable  the store is unavailable: nothing was written, try again

Each message names what was received, what is allowed, and what to do next.
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
    "WrongSignature",
]


class NextqueryError(Exception):
    """The base class: catch it to catch every error that nextquery raises on purpose."""


class InvalidInput(NextqueryError, ValueError):
    """An invalid value, row or option."""


class NotInSlate(InvalidInput):
    """Feedback that names an arm that was not shown."""


class WrongSignature(InvalidInput):
    """A user_signature that does not prove its user_id, or that cannot be checked."""


class UnknownDecision(NextqueryError, LookupError):
    """Feedback for a decision that is not in the store."""


class Conflict(NextqueryError):
    """A second arm accepted for one decision, or one request id used for different requests."""


class ClusterUnavailable(NextqueryError, ConnectionError):
    """The cluster, or a part of it, did not answer in time. Retrying may help."""


class StorageError(NextqueryError, OSError):
    """Files that cannot be used."""


class NotAFolder(StorageError):
    """A folder that is foreign, incomplete, or of another format version."""


class Damaged(StorageError):
    """A folder written by nextquery whose bytes have changed since."""


class StoreUnavailable(StorageError):
    """The store is unavailable. Nothing was written; try again."""
