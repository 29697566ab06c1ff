"""A row to ask for, and how much depends on its label."""

from typing import NamedTuple


class Doubt(NamedTuple):
    """A row to label: about `stake` rows around it may be relevant or not."""

    stake: float
    row: int
    phase: str
