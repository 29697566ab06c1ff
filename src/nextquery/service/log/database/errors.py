"""What happens when the database goes away: its errors become ours, and nothing is half-written.

`Store.reading` and `Store.writing` run inside `database_errors`. A transaction that fails is rolled
back, and `StoreUnavailable` reaches the caller. `Writer` fails every write of that transaction with
it and tries later ones after a pause. The HTTP layer answers 503 with `Retry-After`, `/readyz`
fails, and the learner continues from its position once the database is back.

If the connection breaks while a commit is confirmed, only the database knows whether it was
written. The error says so. To repeat the request is safe: it is recorded once.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from sqlalchemy import exc

from nextquery.errors import InvalidInput, StoreUnavailable

_NOT_WRITTEN = "Nothing was written. Try again"
_UNKNOWN = (
    "Whether the last change was written is unknown, since the connection broke during the commit. "
    "Try again with the same request_id; what was written is not written twice"
)


@dataclass
class Phase:
    """How far a transaction has come."""

    committing: bool = False


@contextmanager
def database_errors() -> Iterator[Phase]:
    """Raise the database's errors as ours, without the values of the statement."""
    phase = Phase()
    try:
        yield phase
    except exc.DataError as error:
        raise InvalidInput(f"the database rejected a value: {_first_line(error.orig)}.") from None
    except exc.DBAPIError as error:
        broken = phase.committing and error.connection_invalidated
        raise StoreUnavailable(
            f"the database is unavailable: {_first_line(error.orig)}. "
            f"{_UNKNOWN if broken else _NOT_WRITTEN}, and check the database's disk, permissions "
            "and connections."
        ) from error.orig
    except exc.TimeoutError:
        raise StoreUnavailable(
            "all connections to the database are busy. Nothing was written. Try again."
        ) from None


def _first_line(error: BaseException | None) -> str:
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__
