"""What a method learns from: items with vectors, training and validation sessions, by the clock."""

import hashlib
from collections.abc import Sequence
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from nextquery.arms import ArmPool
from nextquery.build.ingest import held_out_of, not_held_out
from nextquery.encode.train.model import Split
from nextquery.encode.train.objectives import data_hash
from nextquery.errors import InvalidInput
from nextquery.segments import text_of
from nextquery.sessions import Ids, Sessions


class Slates(NamedTuple):
    """What was recommended at every query of some sessions, for methods that learn from clicks.

    Parameters
    ----------
    accepted : of every query, whether it was recommended and accepted.
    shown : items that were recommended and not accepted; those at the query at place p are
        ``shown[offsets[p]:offsets[p + 1]]``.
    """

    accepted: NDArray[np.bool_]
    shown: Ids
    offsets: Ids


class TrainingData(NamedTuple):
    """The part of a log that may be learnt from.

    Items are the queries asked in it, numbered from 0; queries asked only later do not exist here,
    not even as negatives. In sessions, a query that repeats the one just before it is the same one.

    Parameters
    ----------
    texts : the items' texts.
    arms : the items' arms in the pool, ascending.
    vectors : the items' vectors in the pool, unit rows.
    training : sessions of two or more queries, as items; nothing in them is dated after the first
        validation session began.
    validation : the newest of these sessions, or random ones if the log has no times.
    knows_until : nothing here is dated at or after this Unix time; None: no times.
    hidden : number of newest sessions of the log that are not here.
    slates, validation_slates : what was recommended in the training and validation sessions, if
        they come from the service's own log.
    """

    texts: Sequence[str]
    arms: Ids
    vectors: NDArray[np.float32]
    training: Sessions
    validation: Sessions
    knows_until: float | None
    hidden: int = 0
    slates: Slates | None = None
    validation_slates: Slates | None = None

    @classmethod
    def of(
        cls, pool: ArmPool, *, until: float | None = None, hold_out: int = 0, seed: int = 0
    ) -> Self:
        """Return what may be learnt from a pool's log.

        Parameters
        ----------
        until : only what is dated before this Unix time; the log must have times.
        hold_out : number of newest sessions of two or more queries (at most half) to leave out.
            Without `until`, those that the pool holds out for replays are left out too.
        seed : draws the validation sessions if the log has no times.
        """
        known, hidden = _known(pool, until, hold_out)
        timed = known.timed
        split = Split.of(known.without_repeats(), timed=timed, seed=seed, repeats=True)
        training, validation = split
        if timed:
            begun = float(validation.asked[validation.offsets[:-1]].min())
            training = training.before(begun)
            training = training.take(np.flatnonzero(training.lengths >= 2))
            if not training.size:
                raise InvalidInput(
                    "no session has a next query before the validation sessions begin. Use a "
                    "longer log, or a later --until."
                )
        arms = np.unique(known.arms)
        number = np.zeros(int(arms.max(initial=0)) + 1, np.int64)
        number[arms] = np.arange(len(arms))
        return cls(
            [text_of(pool.texts[arm]) for arm in arms.tolist()],
            arms,
            np.asarray(pool.vectors[arms], np.float32),
            training._replace(arms=number[training.arms]),
            validation._replace(arms=number[validation.arms]),
            float(np.nextafter(known.asked.max(), np.inf)) if timed else None,
            hidden,
        )

    @property
    def sha256(self) -> str:
        """A hash of everything that is learnt from."""
        digest = hashlib.sha256(data_hash(self.texts, self.training).encode())
        digest.update(data_hash((), self.validation).encode() + self.vectors.tobytes())
        for slates in (self.slates, self.validation_slates):
            for array in slates or ():
                digest.update(array.tobytes() + b"\n")
        return digest.hexdigest()

    @property
    def counts(self) -> Ids:
        """How often each item occurs in the training sessions."""
        return np.bincount(self.training.arms, minlength=len(self.texts))


def _known(pool: ArmPool, until: float | None, hold_out: int) -> tuple[Sessions, int]:
    """Return the sessions that may be learnt from, in order of time, and how many are left out."""
    origin = pool.origin
    if origin is None or not origin.sessions.size:
        raise InvalidInput(
            "this pool has no sessions to learn from: it was not made of a log. Make one with "
            "nextquery ingest LOG --out POOL."
        )
    hidden = held_out_of(origin.sessions, hold_out, warm=0)
    if until is None:
        hidden = max(hidden, origin.for_replays)
    known = not_held_out(origin, hidden)
    if until is None:
        return known, hidden
    if not known.timed:
        raise InvalidInput(
            "this log does not have the time of every query, so there is no 'until'. Make the pool "
            "again from a log with times (--time names the column), or leave out --until."
        )
    before = known.before(until)
    if not before.size:
        raise InvalidInput("nothing in this log is dated before --until. Pass a later date.")
    return before, hidden + known.size - before.size
