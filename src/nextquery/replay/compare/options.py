"""The options of a comparison, and the two windows of the log that it plays."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from nextquery.arms.pool import ArmPool
from nextquery.checks import whole_number
from nextquery.errors import InvalidInput
from nextquery.policies.registry import SERVED, split
from nextquery.replay.stream.clock import Stream, unix_time
from nextquery.replay.stream.options import StreamOptions
from nextquery.research.neural.serve import opened
from nextquery.research.rivals.registry import RIVALS
from nextquery.sessions import Sessions
from nextquery.warm_start import WARM_SESSIONS

COMPARED = (SERVED, f"{SERVED}@personal=off", "lin-ucb-shared", "most-similar-first", *RIVALS)
"""The recommenders of a comparison, the served default first."""

VARIANTS: dict[str, tuple[str, ...]] = {
    name: tuple(f"{name}@session_days={days}" for days in (5, 30, 365, 5000))
    for name in ("stan", "vstan")
}
"""What is tuned, on an earlier window: the age of a session has no value that fits every log."""


MOST = 1000
"""Sessions to score, and sessions before them to tune on, if the log is long enough."""


def window_for(sessions: Sessions) -> int:
    """Return how many sessions to score of a log: a quarter of those with a next query, or MOST.

    Another quarter is for tuning, and half of the log is known before.

    >>> window_for(Sessions.of([[0, 1]] * 40 + [[2]])), window_for(Sessions.of([[0, 1]] * 9000))
    (10, 1000)
    """
    return min(MOST, max(1, int((sessions.lengths > 1).sum()) // 4))


@dataclass(frozen=True)
class CompareOptions:
    """A comparison of recommenders on the newest part of a log.

    Parameters
    ----------
    sessions : score the answers since the newest `sessions` sessions with a next query began.
    since, until : score the answers since this date instead; leave out what is dated later.
    warm : number of sessions before them for the policies' warm start.
    recommenders : names as in `StreamOptions.policies`; the served default joins them.
    models : folders of trained models, which join them too.
    tune : whether to tune `VARIANTS` on the sessions before the window that is scored.
    tuning_sessions : number of these sessions.
    returns : whether a session's own earlier queries may be recommended.
    seed : of every random draw.
    timed : number of recommendations to time.
    """

    sessions: int = MOST
    since: str | None = None
    until: str | None = None
    warm: int = WARM_SESSIONS
    recommenders: Sequence[str] = COMPARED
    models: Sequence[str | os.PathLike[str]] = ()
    tune: bool = True
    tuning_sessions: int = MOST
    returns: bool = False
    seed: int = 0
    timed: int = 200

    def __post_init__(self) -> None:
        whole_number(self.tuning_sessions, "tuning_sessions", at_least=1)
        whole_number(self.timed, "timed", at_least=1)
        for name in ("since", "until"):
            if (date := getattr(self, name)) is not None:
                unix_time(date, name)
        self.window()  # which checks the rest

    def of_length(self, sessions: int) -> "CompareOptions":
        """Return the options with so many sessions to score, and as many before them to tune on."""
        return replace(self, sessions=sessions, tuning_sessions=sessions)

    def window(self, names: Sequence[str] | None = None) -> StreamOptions:
        """Return the stream that is scored, of these recommenders or all."""
        return StreamOptions(
            sessions=self.sessions,
            since=self.since,
            until=self.until,
            warm=self.warm,
            returns=self.returns,
            seed=self.seed,
            policies=tuple(self.names() if names is None else names),
        )

    def names(self) -> list[str]:
        """Return the recommenders, the served default first."""
        trained = [f"{opened(folder)[0].method}@model={folder}" for folder in self.models]
        for name in trained:
            if split(name)[1]["model"] != name.partition("=")[2]:
                raise InvalidInput(
                    f"the folder of a model must have no comma in its path; received {name!r}."
                )
        return list(dict.fromkeys([SERVED, *self.recommenders, *trained]))

    def tuned(self) -> list[str]:
        """Return the recommenders that are tuned."""
        return [name for name in self.names() if name in VARIANTS] if self.tune else []

    def earlier(self, start: float) -> StreamOptions:
        """Return the stream to tune on: nothing in it is dated at or after `start`."""
        names = [variant for name in self.tuned() for variant in VARIANTS[name]]
        return StreamOptions(
            sessions=self.tuning_sessions,
            until=datetime.fromtimestamp(start, UTC).isoformat(),
            warm=self.warm,
            returns=self.returns,
            seed=self.seed,
            policies=names,
        )


def started(pool: ArmPool, sessions: Sessions, options: CompareOptions) -> Stream:
    """Return the stream that is scored."""
    return Stream.of(sessions, options.window().span, pool.rows_in_all)
