"""Replay: the experiments of the paper on past sessions, and the report they end in."""

from nextquery.replay.cells import Options
from nextquery.replay.grid import run_grid
from nextquery.replay.report import report
from nextquery.replay.sessions import PastSessions

__all__ = ["Options", "PastSessions", "report", "run_grid"]
