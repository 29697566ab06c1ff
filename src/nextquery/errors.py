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
    """The base class: catch it to catch every error that nextquery raises on purpose.

    >>> import nextquery as nq
    >>> try:
    ...     nq.MaxUtility(k=0)
    ... except nq.errors.NextqueryError as error:
    ...     print(error)
    k must be a whole number of at least 1; received 0.
    """


class InvalidInput(NextqueryError, ValueError):
    """An invalid value, row or option.

    >>> import nextquery as nq
    >>> nq.policy("lin-ucb", alpha=-1)
    Traceback (most recent call last):
    nextquery.errors.InvalidInput: alpha must be ...; received -1...
    """


class NotInSlate(InvalidInput):
    """Feedback that names an arm that was not shown.

    >>> issubclass(NotInSlate, InvalidInput)  # the service answers 422
    True
    """


class WrongSignature(InvalidInput):
    """A user_signature that does not prove its user_id, or that cannot be checked.

    >>> issubclass(WrongSignature, InvalidInput)  # the service answers 403
    True
    """


class UnknownDecision(NextqueryError, LookupError):
    """Feedback for a decision that is not in the store.

    >>> issubclass(UnknownDecision, LookupError)  # the service answers 404
    True
    """


class Conflict(NextqueryError):
    """A second arm accepted for one decision, or one request id used for different requests.

    >>> issubclass(Conflict, NextqueryError)  # the service answers 409
    True
    """


class ClusterUnavailable(NextqueryError, ConnectionError):
    """The cluster, or a part of it, did not answer in time. Retrying may help.

    >>> issubclass(ClusterUnavailable, ConnectionError)  # the service answers 503
    True
    """


class StorageError(NextqueryError, OSError):
    """Files that cannot be used.

    >>> import nextquery as nq
    >>> try:
    ...     nq.ArmPool.open("no/such/pool")
    ... except nq.errors.StorageError as error:
    ...     print(type(error).__name__)
    NotAFolder
    """


class NotAFolder(StorageError):
    """A folder that is foreign, incomplete, or of another format version.

    >>> import nextquery as nq
    >>> nq.ArmPool.open("no/such/pool")
    Traceback (most recent call last):
    nextquery.errors.NotAFolder: ...
    """


class Damaged(StorageError):
    """A folder written by nextquery whose bytes have changed since.

    >>> import tempfile
    >>> from pathlib import Path
    >>> import nextquery as nq
    >>> pool = nq.ArmPool.from_vectors(["a", "b"], [[1, 0], [0, 1]])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pool.save(f"{folder}/pool")
    ...     [vectors] = Path(folder, "pool").glob("vectors*.npy")
    ...     size = vectors.write_bytes(vectors.read_bytes()[:-1] + b"x")
    ...     nq.ArmPool.open(f"{folder}/pool").verify()
    Traceback (most recent call last):
    nextquery.errors.Damaged: ...
    """


class StoreUnavailable(StorageError):
    """The store is unavailable. Nothing was written; try again.

    >>> import nextquery as nq
    >>> with nq.Client("http://127.0.0.1:1", retries=0) as client:
    ...     client.stats()
    Traceback (most recent call last):
    nextquery.errors.StoreUnavailable: the service cannot be reached: ...
    """
