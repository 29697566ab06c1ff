"""Selections: from a pool of millions to a small candidate set."""

from nextquery.selection.baselines import (
    PreferenceSample,
    PreferenceThreshold,
    RandomSelection,
    Zooming,
)
from nextquery.selection.max_utility import MaxUtility
from nextquery.selection.schedule import Bump, LambertPower, Power, Schedule
from nextquery.selection.selector import Candidates, Selector

__all__ = [
    "Bump",
    "Candidates",
    "LambertPower",
    "MaxUtility",
    "Power",
    "PreferenceSample",
    "PreferenceThreshold",
    "RandomSelection",
    "Schedule",
    "Selector",
    "Zooming",
]
