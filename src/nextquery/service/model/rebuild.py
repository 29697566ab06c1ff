"""The proof that nothing was lost: the state from the log alone, beside the one that was kept."""

from typing import NamedTuple

from nextquery.service.log.store import Store
from nextquery.service.model.learner import Learner, newest_state
from nextquery.service.model.state import State, difference

AGREE = 1e-9
"""Two states this near to each other are the same."""


class Rebuilt(NamedTuple):
    """The state at the log's end, and how far the newest snapshot lies from the log's own word.

    `snapshot` is that snapshot's position (0: there is none), `difference` the largest difference
    of any number in it, infinite where more than numbers differs.
    """

    state: State
    snapshot: int
    difference: float

    @property
    def agrees(self) -> bool:
        """Whether the snapshot is what the log says, to `AGREE`."""
        return self.difference <= AGREE


def rebuild(store: Store) -> Rebuilt:
    """Read the whole log from its start, and compare with the newest snapshot on the way."""
    kept, learner = newest_state(store), Learner(store)
    learner.catch_up(until=kept.position)
    apart = difference(learner.state, kept)
    learner.catch_up()
    return Rebuilt(learner.state, kept.position, apart)
