"""Exploration by example: mark rows of a table, get the WHERE clause that finds such rows."""

from nextquery.explore.exploration import Exploration, Sample
from nextquery.explore.table import Table

__all__ = ["Exploration", "Sample", "Table"]
