"""A simulated population with the habits of web search, for tests and closed loops.

Nothing here was measured on a person. The shares of the four kinds of next queries are those of
real web search; everything else is drawn from a seed.
"""

from nextquery.datasets.simulated.kinds import KINDS, Kind, Shares, kinds, shares
from nextquery.datasets.simulated.person import Person
from nextquery.datasets.simulated.population import WEB, Population, SimulatedQuery, Wish, write

__all__ = [
    "KINDS",
    "WEB",
    "Kind",
    "Person",
    "Population",
    "Shares",
    "SimulatedQuery",
    "Wish",
    "kinds",
    "shares",
    "write",
]
