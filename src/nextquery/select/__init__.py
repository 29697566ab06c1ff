"""Selections: from a pool of millions to a small candidate set."""

from nextquery.select.base import Candidates, Selector
from nextquery.select.max_utility import MaxUtility
from nextquery.select.naive import PreferenceSample, PreferenceThreshold
from nextquery.select.random import RandomSelection
from nextquery.select.schedule import Bump, LambertPower, Power, Schedule
from nextquery.select.zooming import Zooming

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
