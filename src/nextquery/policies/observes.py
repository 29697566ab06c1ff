"""Learning from a whole step: its next query is known, so every candidate was answered."""

import numpy as np

from nextquery.errors import InvalidInput
from nextquery.policies.choice import Choice, Context
from nextquery.policies.half_life import checked_time
from nextquery.policies.packed import Step, unpack
from nextquery.selection.selector import Candidates


class Observes:
    """The part of a policy that learns whole steps; a policy without a model learns nothing."""

    _rng: np.random.Generator

    def failures(
        self, candidates: Candidates, context: Context, rng: np.random.Generator | None = None
    ) -> bytes:
        """Return what there would be to learn if every candidate failed, in at most `MOST` bytes.

        Keep it until the next query is known, then call `observe`. What does not fit is replaced by
        a sample (see `nextquery.policies.packed`). Empty without candidates, for a policy that
        learns nothing, and if not even a sample fits: learn from single choices then.
        """
        draws = self._rng if rng is None else rng
        return self._failures(candidates, context, draws) if len(candidates) else b""

    def observe(
        self,
        failures: bytes,
        success: Choice | None,
        *,
        sign: int = 1,
        at: float | None = None,
    ) -> None:
        """Learn from a step whose next query is known: all candidates failed but `success`.

        It counts as one update. Empty `failures` teach nothing.

        Parameters
        ----------
        failures : what `failures` returned for the candidates of the step.
        success : the candidate that came next, from `as_choice` or a slate; None if none did.
        sign : 1, or -1 to take back what the same arguments taught.
        at : Unix time of the decision; it matters to a policy with a half-life.
        """
        if sign not in (1, -1):
            raise InvalidInput(f"sign must be 1, or -1 to take back; received {sign!r}.")
        step, time = unpack(failures), checked_time(at)
        if failures:
            self._check_step(step, success)
            self._observe(step, success, sign, time)

    def check_observation(self, failures: bytes, success: Choice | None) -> None:
        """Raise `InvalidInput` if `observe` could not learn this. Nothing changes."""
        step = unpack(failures)
        if failures:
            self._check_step(step, success)

    def _failures(
        self, candidates: Candidates, context: Context, rng: np.random.Generator
    ) -> bytes:
        """Pack what the failures of all candidates would teach; see `failures`."""
        return b""

    def _observe(self, step: Step, success: Choice | None, sign: int, at: float | None) -> None:
        """Learn a whole step; see `observe`."""
        return

    def _check_step(self, step: Step, success: Choice | None) -> None:
        """Raise `InvalidInput` if the model could not learn a step."""
        return
