"""Replay: the paper's experiments on past sessions, and streams in order of time."""

from nextquery.research.replay.cells import Options, sessions_of
from nextquery.research.replay.grid import run_grid
from nextquery.research.replay.players import StreamOptions
from nextquery.research.replay.stream import run_stream
from nextquery.sessions import Sessions

__all__ = [
    "Options",
    "Sessions",
    "StreamOptions",
    "run_grid",
    "run_stream",
    "sessions_of",
]
