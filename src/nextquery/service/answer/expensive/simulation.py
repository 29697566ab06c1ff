"""Simulations as the service runs them: one at a time, and ended with whoever asked for it."""

import json
import threading
from collections.abc import Callable, Generator, Iterator

from nextquery.errors import Conflict
from nextquery.service.answer.engine import Engine
from nextquery.service.answer.expensive.play import SimulatedRound, play


class Simulator:
    """Runs simulated people with the options of a service, one simulation at a time."""

    def __init__(self, engine: Engine) -> None:
        self._options = engine.options
        self._running = threading.Lock()

    def start(self, *, users: int, seed: int) -> "Simulation":
        """Start a simulation; raises at once if one is running."""
        if not self._running.acquire(blocking=False):
            raise Conflict("a simulation is already running. Wait until it has finished.")
        steps = play(self._options, users=users, seed=seed)
        return Simulation(steps, ended=self._running.release)


class Simulation:
    """The steps of one simulation, which runs until they end or until it is closed.

    A step is a round, or None for a part of the preparation.

    A generator that was never started runs no code when it is closed, so this is a class: whoever
    leaves before the first round must end the simulation too.
    """

    def __init__(
        self, steps: Generator[SimulatedRound | None, None, None], *, ended: Callable[[], None]
    ) -> None:
        self._steps, self._ended = steps, ended
        self._open = True

    def __iter__(self) -> Iterator[SimulatedRound | None]:
        return self

    def __next__(self) -> SimulatedRound | None:
        try:
            return next(self._steps)
        except BaseException:  # the last round, or a failure
            self.close()
            raise

    def close(self) -> None:
        """End the simulation; safe to call twice."""
        if self._open:
            self._open = False
            try:
                self._steps.close()
            finally:
                self._ended()

    def lines(self) -> Iterator[bytes]:
        """Encode the rounds as JSON Lines; preparation gives empty ones."""
        for row in self:
            yield b"" if row is None else json.dumps(row).encode() + b"\n"
