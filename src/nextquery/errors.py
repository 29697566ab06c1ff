"""Every error nextquery raises on purpose.

::

    NextqueryError
    ├── InvalidInput      a value, row or option that cannot be used   (also a ValueError)
    └── StorageError      files that cannot be used                    (also an OSError)
        ├── NotAFolder    foreign, incomplete, or written by another format version
        └── Damaged       ours, but the bytes are not the ones that were written

Each message says what was received, what is allowed, and what to do next.
"""

__all__ = ["Damaged", "InvalidInput", "NextqueryError", "NotAFolder", "StorageError"]


class NextqueryError(Exception):
    """The root: catch it to catch everything nextquery raises on purpose."""


class InvalidInput(NextqueryError, ValueError):
    """A value, row or option that cannot be used."""


class StorageError(NextqueryError, OSError):
    """Files that cannot be used."""


class NotAFolder(StorageError):
    """A folder that is foreign, incomplete, or of another format version."""


class Damaged(StorageError):
    """A folder of ours whose bytes are not the ones that were written."""
