"""Vectors that have not seen the answers: an encoder fitted on earlier sessions alone.

An encoder that learns from sessions places together what was asked together. Replayed on the very
sessions it learnt from, it knows the answers: the floor then measures memory. So the last sessions
of the log are held out, the encoder is fitted on those before, and anchors and stream come from the
held-out ones. (The texts of all queries are known to it, not who asked them together.)
"""

import os
from pathlib import Path

import numpy as np

from nextquery.arms.pool import ArmPool
from nextquery.checks import whole_number
from nextquery.encode import Encoder, Sessions, encoder_by_name
from nextquery.errors import InvalidInput, NotAFolder
from nextquery.replay.sessions import PastSessions

_BLOCK = 1 << 14  # texts encoded at once


def refit(
    pool: ArmPool,
    sessions: PastSessions,
    last: int,
    encoder: str = "auto",
    *,
    keep_in: str | os.PathLike[str] | None = None,
) -> tuple[ArmPool, PastSessions, str]:
    """The pool and sessions under vectors that never saw the `last` sessions; the encoder's name.

    Parameters
    ----------
    last : how many sessions, the last in order of time, are held out; at least 1, not all.
    encoder : a name, or ``auto``, as for `nextquery.encode.encoder_by_name`.
    keep_in : a folder in which the fitted encoder is kept, so that a run started again goes on
        with the same vectors.
    """
    past = sessions.in_order_of_time()
    count = len(past.times)
    if whole_number(last, "last", at_least=1) >= count:
        raise InvalidInput(
            f"{last} sessions cannot be held out of {count}: an encoder needs earlier ones to "
            "learn from. Hold out fewer."
        )
    earlier = past.take(np.arange(count - last))
    texts = [pool.texts[arm] for arm in range(pool.rows_in_all)]
    fitted = _fitted(encoder, texts, earlier, None if keep_in is None else Path(keep_in))
    blocks = range(0, len(texts), _BLOCK)
    rows = np.concatenate([fitted.encode(texts[at : at + _BLOCK]) for at in blocks])
    placed = (rows != 0).any(axis=1) & ~np.isin(np.arange(len(rows)), pool.removed)
    kept = Sessions(past.arms, past.offsets).where(placed)
    ids = np.cumsum(placed) - 1
    again = ArmPool.from_vectors([texts[i] for i in np.flatnonzero(placed)], rows[placed])
    moved = PastSessions(ids[kept.arms].astype(np.int64), kept.offsets, past.times)
    return again, moved, fitted.name


def _fitted(name: str, texts: list[str], earlier: PastSessions, folder: Path | None) -> Encoder:
    if folder is not None:
        try:
            return Encoder.load(folder)
        except NotAFolder:
            pass
    sessions = Sessions(earlier.arms, earlier.offsets)
    encoder = encoder_by_name(name, n_sessions=sessions.size, n_texts=len(texts))
    encoder.fit(texts, sessions)
    if folder is not None:
        encoder.save(folder)
        return Encoder.load(folder)  # what a run started again will use
    return encoder
