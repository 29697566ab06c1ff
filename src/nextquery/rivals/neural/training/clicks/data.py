"""What can be learnt from accepted recommendations, by the clock."""

import os

import numpy as np

from nextquery.arms import ArmPool
from nextquery.encode.train.loop import Note
from nextquery.encode.train.model import FEWEST, HELD_OUT
from nextquery.errors import InvalidInput
from nextquery.rivals.neural.training.clicks.export import Visit, visits_of
from nextquery.rivals.neural.training.data import Slates, TrainingData
from nextquery.sessions import Ids, Sessions


def clicked(
    pool: ArmPool,
    export: str | os.PathLike[str],
    *,
    until: float | None,
    hold_out: int,
    note: Note,
) -> TrainingData:
    """Return what an export says of the arms of a pool.

    Parameters
    ----------
    until : only what is dated before this Unix time; None: all.
    hold_out : number of newest sessions of two or more queries to leave out.
    """
    visits, unknown = visits_of(export, pool.find, until)
    if unknown:
        note(
            f"{unknown:,} decisions of {export} are for queries that are no arms of this pool. "
            "They are left out, since they have no vector in it."
        )
    visits = sorted((one for one in visits if len(one.arms) > 1), key=lambda one: one.asked[0])
    left_out = min(hold_out, len(visits) // 2)
    if left_out:
        begun = visits[-left_out].asked[0]
        visits = _before(visits[:-left_out], begun)
    if len(visits) < FEWEST:
        raise InvalidInput(
            f"training needs at least {FEWEST} sessions of 2 or more different queries; {export} "
            f"has {len(visits)} on this pool. Export a longer log, or pass the pool that the "
            "service runs on."
        )
    if not any(any(one.accepted) for one in visits):
        raise InvalidInput(
            f"nobody accepted a recommendation in {export}, so there are no clicks to learn from. "
            "Export a later log, or train a method that learns from sessions alone, like gru4rec."
        )
    held = min(HELD_OUT, len(visits) // 10)
    validation = visits[-held:]
    training = _before(visits[:-held], validation[0].asked[0])
    if not training:
        raise InvalidInput(
            f"no session of {export} has a next query before the validation sessions begin. Use a "
            "longer log, or a later --until."
        )
    arms = np.unique(np.concatenate([_flat(one) for one in [*training, *validation]]))
    numbers = {arm: number for number, arm in enumerate(arms.tolist())}
    sessions, slates = _arrays(training, numbers)
    validation_sessions, validation_slates = _arrays(validation, numbers)
    last = max(one.asked[-1] for one in visits)
    return TrainingData(
        [pool.texts[arm] for arm in arms.tolist()],
        arms,
        np.asarray(pool.vectors[arms], np.float32),
        sessions,
        validation_sessions,
        float(np.nextafter(last, np.inf)),
        left_out,
        slates,
        validation_slates,
    )


def _before(visits: list[Visit], time: float) -> list[Visit]:
    """Return what was known at a time, of sessions that had a next query by then."""
    known = []
    for one in visits:
        size = int(np.searchsorted(one.asked, time))
        if size > 1:
            known.append(
                Visit(one.arms[:size], one.asked[:size], one.accepted[:size], one.shown[:size])
            )
    return known


def _flat(visit: Visit) -> Ids:
    return np.array([*visit.arms, *(arm for row in visit.shown for arm in row)], np.int64)


def _arrays(visits: list[Visit], numbers: dict[int, int]) -> tuple[Sessions, Slates]:
    sessions = Sessions.of([[numbers[arm] for arm in one.arms] for one in visits])
    asked = np.array([time for one in visits for time in one.asked])
    sessions = sessions._replace(asked=asked, times=asked[sessions.offsets[:-1]])
    shown = [row for one in visits for row in one.shown]
    ends = np.cumsum([len(row) for row in shown])
    slates = Slates(
        np.array([flag for one in visits for flag in one.accepted], bool),
        np.array([numbers[arm] for row in shown for arm in row], np.int64),
        np.concatenate([[0], ends]).astype(np.int64),
    )
    return sessions, slates
