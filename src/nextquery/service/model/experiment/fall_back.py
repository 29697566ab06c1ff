"""Falling back when the watch of a served policy raises its alarm."""

import logging

from nextquery.service.log.events import By, FellBack
from nextquery.service.log.teaching import FallBack
from nextquery.service.log.writer import Writer
from nextquery.service.model.learner import Learner
from nextquery.service.settings import CONTROL

_log = logging.getLogger("nextquery.service")


def fall_back(learner: Learner, writer: Writer) -> None:
    """Record a fallback for every policy that was found worse than the control.

    Each worker finds the same at the same position of the log, and one of them records it.
    """
    with learner.lock:
        state = learner.state
        found = [(policy, state.position, state.watched(policy)) for policy in state.alarms]
    for policy, position, (sessions, difference) in found:
        body = FellBack(
            policy=policy, sessions=sessions, difference=difference, by=By("service", "watch")
        )
        written = writer.submit(FallBack(body, position)).result()
        if written is not None:
            _log.error(
                "fell back: %s was found worse than %s (%+.3f hits per session, %d sessions); its "
                "sessions get the most similar queries from position %d on, until nextquery "
                "end-fallback",
                policy,
                CONTROL,
                difference,
                sessions,
                written,
            )
