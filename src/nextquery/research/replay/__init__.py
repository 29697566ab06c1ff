"""Replay: the paper's experiments on past sessions, streams, and comparisons of recommenders."""

from nextquery.research.replay.cells import Options, sessions_of
from nextquery.research.replay.compare import CompareOptions, run_comparison
from nextquery.research.replay.grid import run_grid
from nextquery.research.replay.players import StreamOptions
from nextquery.research.replay.stream import run_stream
from nextquery.research.report.report import report
from nextquery.research.report.reproduce import reproduce
from nextquery.sessions import Sessions

__all__ = [
    "CompareOptions",
    "Options",
    "Sessions",
    "StreamOptions",
    "report",
    "reproduce",
    "run_comparison",
    "run_grid",
    "run_stream",
    "sessions_of",
]
