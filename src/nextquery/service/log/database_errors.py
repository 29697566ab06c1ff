"""What happens when the database goes away: its errors become ours, and nothing is half-written.

`Store.reading` and `Store.writing` run inside `database_errors`. A transaction that fails is rolled
back, and `StoreUnavailable` reaches the caller. `Writer` fails every write of that transaction with
it and tries later ones after a pause. The HTTP layer answers 503 with `Retry-After`, `/readyz`
fails, and the learner continues from its position once the database is back.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import exc

from nextquery.errors import InvalidInput, StoreUnavailable


@contextmanager
def database_errors() -> Iterator[None]:
    """Raise the database's errors as ours, without the values of the statement."""
    try:
        yield
    except exc.DataError as error:
        raise InvalidInput(f"the database rejected a value: {_first_line(error.orig)}.") from None
    except exc.DBAPIError as error:
        raise StoreUnavailable(
            f"the database is unavailable: {_first_line(error.orig)}. Nothing was written. Try "
            "again, and check the database's disk, permissions and connections."
        ) from error.orig
    except exc.TimeoutError:
        raise StoreUnavailable(
            "all connections to the database are busy. Nothing was written. Try again."
        ) from None


def _first_line(error: BaseException | None) -> str:
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__
