"""The store: one database, SQLite or PostgreSQL, that holds the event log."""


class Store:
    """An open database."""

    @classmethod
    def open(cls, url: str, *, create: bool = True) -> "Store":
        """`url`: a path, ``sqlite:///path`` or ``postgresql://…``."""
        raise NotImplementedError
