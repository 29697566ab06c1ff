"""A row to ask for, and how much depends on its label."""

from typing import NamedTuple


class Doubt(NamedTuple):
    """A row whose label would settle whether about `stake` rows are relevant."""

    stake: float
    row: int
    phase: str
    urgent: bool  # whether much of a region depends on it
