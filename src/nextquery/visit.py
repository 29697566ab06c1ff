"""The state of a session between two recommendations."""

from collections.abc import Iterable
from typing import NamedTuple

from nextquery.memory import Key

HISTORY, SEEN = 20, 200  # how many of its newest queries and shown arms a session remembers


class Visit(NamedTuple):
    """The state of a session.

    `history` contains its earlier queries that are arms, `seen` the arms it was shown, `trial` the
    number of recommendations so far. `person` is whose it is, if that person has a past of their
    own, and `previous` the query before the current one, whether it is an arm or not. `session` is
    its id, on which random draws depend, and `kept` the arms that stay in its candidate set.
    """

    history: tuple[int, ...] = ()
    seen: tuple[int, ...] = ()
    trial: int = 0
    person: str | None = None
    previous: Key | None = None
    session: str = ""
    kept: tuple[int, ...] = ()

    def after(
        self,
        arm: int | None,
        shown: Iterable[int],
        key: Key | None = None,
        kept: tuple[int, ...] = (),
    ) -> "Visit":
        """Return the session after a recommendation for a query (its arm, or None).

        `key` is the query itself, also if it is not an arm, and `kept` is that of its candidates.

        >>> Visit().after(7, [8, 9]).after(7, [])[:3]
        ((7,), (8, 9), 2)
        """
        history = tuple(self.with_anchor(arm))[-HISTORY:]
        seen = (*self.seen, *shown)[-SEEN:]
        previous = self.previous if arm is None and key is None else key if arm is None else arm
        return Visit(
            history, seen, self.trial + 1, self.person, previous, self.session, tuple(kept)
        )

    def with_anchor(self, arm: int | None) -> list[int]:
        """Return the session's arms, with the current query last if it is an arm."""
        if arm is None or self.history[-1:] == (arm,):
            return list(self.history)
        return [*self.history, arm]
