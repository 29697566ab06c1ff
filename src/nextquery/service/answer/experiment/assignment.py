"""Which policy answers a session, and the loop that ranks by it."""

from dataclasses import replace
from typing import NamedTuple, Protocol

import numpy as np

from nextquery.experiments.assignment import policy_of
from nextquery.loop import Loop
from nextquery.policies import MostSimilar
from nextquery.service.model.learner import Learner
from nextquery.service.settings import CONTROL
from nextquery.signing import keyed


class OfSession(Protocol):
    """A request in a session."""

    session_id: str
    owner: str


class Turn(NamedTuple):
    """The policy of a session, and the one that answers: after a fallback, the control."""

    assigned: str
    answers: str

    @property
    def fallen(self) -> bool:
        """Whether another policy answers."""
        return self.assigned != self.answers


class Assignment:
    """Divides the sessions between the policies in force: the same way in every worker.

    Read it while the learner's lock is held.
    """

    def __init__(self, loop: Loop, learner: Learner, secret: str) -> None:
        self.loop, self.learner, self._secret = loop, learner, secret

    def turn(self, request: OfSession) -> Turn:
        """Return who answers a request."""
        state = self.learner.state
        shares = state.shares
        assigned = next(iter(shares))
        if len(shares) > 1:
            session = f"{request.owner}\0{request.session_id}"
            assigned = policy_of(session, shares, secret=self._secret)
        return Turn(assigned, CONTROL if assigned in state.fallen else assigned)

    def loop_of(self, policy: str) -> Loop:
        """Return the loop that ranks by a policy; the control never explores."""
        state = self.learner.state
        learnt = state.learnt_by(policy)
        if policy == CONTROL:
            if learnt is state.learnt and CONTROL not in state.shares:  # it has no share
                learnt = replace(learnt, policy=MostSimilar(top=1), calibration={})
            return self.loop if learnt is state.learnt else self.loop.beside(learnt, exploration=0)
        return self.loop if learnt is state.learnt else self.loop.beside(learnt)

    def partner(self, turn: Turn) -> str:
        """Return the policy that shares the slates of the one that answers; empty if none does."""
        both = self.learner.state.interleaving
        return "" if both is None or turn.answers != both.policies[0] else both.policies[1]

    def coins(self, request: OfSession, trial: int) -> np.random.Generator:
        """Return the coins of a draft, which nobody outside can know."""
        session = f"{request.owner}\0{request.session_id}\0{trial}"
        return np.random.default_rng(int(keyed(self._secret, "interleave", session), 16))

    @property
    def needs_preferences(self) -> bool:
        """Whether a policy ranks by the paper's preferences; the control ranks by similarity."""
        others = (
            branch.policy.needs_preferences
            for name, branch in self.learner.state.beside.items()
            if name != CONTROL
        )
        return self.loop.policy.needs_preferences or any(others)
