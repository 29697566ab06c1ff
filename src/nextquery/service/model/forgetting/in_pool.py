"""Taking a person's sessions out of a pool's folder, and the arms that too few others issued.

Only a pool that was made with `--personal` knows whose its sessions were. Ids stay: an arm that
ends leaves a row without a text, and with a vector that says nothing. A pool that remembers its
rows for updates (`nextquery.logs.remembered`) forgets those of the person. The new folder replaces
the old one in one step, and the old files are deleted.
"""

import json
import os
import shutil
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nextquery import folders
from nextquery.arms import ArmPool
from nextquery.arms.codes import FILES, Codes
from nextquery.arms.origin import Origin
from nextquery.arms.pool import KIND, VERSION
from nextquery.arms.texts import Texts, nameless
from nextquery.errors import InvalidInput
from nextquery.learnt import Learnt
from nextquery.lineage import fingerprint
from nextquery.logs.remembered.keys import Keys
from nextquery.logs.remembered.ledger import Ledger
from nextquery.logs.rules.users import person_hash
from nextquery.loop import Loop
from nextquery.personal import why_unrecognised
from nextquery.sessions import Ids, Sessions
from nextquery.working import work_on

_LINEAGE = "vectors_begin_with"


class GoneFromPool(NamedTuple):
    """The sessions and their queries that left a pool, and the arms that ended."""

    sessions: int = 0
    queries: int = 0
    arms: tuple[int, ...] = ()
    anything: bool = False  #: whether the pool knew the person


NOT_IN_POOL = GoneFromPool()


class InPool(NamedTuple):
    """Under which hashes a pool may know a user: of its people, and in its ledger."""

    person: str | None = None
    row: bytes | None = None
    keys: Keys | None = None


def user_in(
    pool: ArmPool, user_id: str, user_hash_secret: str, owner: str | None = None
) -> InPool | None:
    """Return the hashes under which a pool would know a user; None if it knows nobody.

    `owner` is whose user is meant; None: whoever the owner of the pool's users is. A service with
    another secret than that of ingest cannot find anybody, which is an error.
    """
    origin = pool.origin
    if origin is None or (not origin.people and origin.ledger is None):
        return None
    of_pool = origin.named_with.get("owner", "")
    if owner not in (None, of_pool):
        return None
    person = None
    if origin.people:
        why = why_unrecognised(origin.named_with, user_hash_secret=user_hash_secret)
        if why is not None:
            raise InvalidInput(f"the pool has people's own pasts, and cannot be searched: {why}.")
        person = person_hash(user_hash_secret, of_pool, user_id)
    if origin.ledger is None:
        return InPool(person)
    keys = Keys(user_hash_secret)
    return InPool(person, keys.of("user", user_id.strip()), keys)


def can_search(pool: ArmPool, user_hash_secret: str) -> bool:
    """Whether a service with this secret can find a user in a pool, or nobody could."""
    try:
        user = user_in(pool, "anybody", user_hash_secret)
        if user is not None and pool.origin is not None:
            _ledger_of(pool.origin, user, "the ledger of the pool")
    except InvalidInput:
        return False
    return True


def sessions_of(pool: ArmPool, user: InPool) -> list[dict[str, Any]]:
    """Return the sessions of a person in a pool, as JSON values."""
    origin = pool.origin
    if origin is None or user.person not in origin.people:
        return []
    theirs = origin.sessions.take(np.flatnonzero(_whose(origin, user.person)[1]))
    times = theirs.asked if len(theirs.asked) else np.full(len(theirs.arms), np.nan)
    return [
        {
            "queries": [
                {"text": pool.shown(arm), "time": None if np.isnan(time) else time}
                for arm, time in zip(
                    theirs.arms[start:end].tolist(), times[start:end].tolist(), strict=True
                )
            ]
        }
        for start, end in zip(theirs.offsets[:-1], theirs.offsets[1:], strict=True)
    ]


def forget_in_pool(path: str | os.PathLike[str], user: InPool) -> GoneFromPool:
    """Take a user out of the pool at `path`.

    What an interrupted ingest left beside it goes too, since that may know them.
    """
    folder = Path(path)
    with work_on(folder) as work:  # an update at the same time would bring them back
        try:
            return _forget(folder, user)
        finally:
            shutil.rmtree(work, ignore_errors=True)


def _forget(folder: Path, user: InPool) -> GoneFromPool:
    pool = ArmPool.open(folder)
    before = pool.origin
    if before is None:
        return NOT_IN_POOL
    left, gone = _without_rows(before, user, folder), Sessions.of([])
    if user.person is not None and user.person in before.people:
        left, gone = _without(left, user.person)
    if left is before:
        return NOT_IN_POOL
    ended = _ended(pool, left, gone)
    parts = {name: part for name, part in pool.parts().items() if not name.startswith("log_")}
    meta = pool.meta()
    if len(ended):
        known_as = f"{pool.rows_in_all} {fingerprint(pool)}"
        left = replace(left, known_as=known_as, shown=_blank(left.shown, ended))
        parts |= _without_texts(pool, ended) | _without_words(pool, ended)
        removed = np.union1d(pool.removed, ended)
        parts["removed.npy"], meta["arms"] = removed, pool.rows_in_all - len(removed)
        meta.pop(_LINEAGE, None)
    parts |= left.parts()
    meta["log"] = left.meta()
    folders.write(folder, kind=KIND, version=VERSION, parts=parts, meta=meta)
    return GoneFromPool(gone.size, len(gone.arms), tuple(ended.tolist()), True)


def use_anew(loop: Loop, learnt: Learnt, pool: ArmPool) -> None:
    """Recommend with what was learnt anew, and without the pasts of people whom the pool forgot.

    What others asked after them stays in memory until the service is started again.
    """
    loop.use(learnt)
    folder = getattr(pool, "folder", None)
    if folder is None or pool.origin is None or not pool.origin.people:
        return
    now = folders.newest(folder)
    loop.memory.own_log.keep(Origin.of(now, now.meta["log"]).people)


def _without_rows(origin: Origin, user: InPool, folder: Path) -> Origin:
    """Return the log without what its ledger remembers of a user; the same if that is nothing."""
    ledger = _ledger_of(origin, user, f"the ledger of {folder}")
    if ledger is None or user.keys is None or user.row is None or not ledger.knows(user.row):
        return origin
    left = ledger.without_user(user.row, _min_users(origin))
    return replace(origin, ledger=left.to_bytes(user.keys))


def _ledger_of(origin: Origin, user: InPool, name: str) -> Ledger | None:
    if origin.ledger is None or user.keys is None:
        return None
    content = origin.ledger if isinstance(origin.ledger, bytes) else origin.ledger.read_bytes()
    return Ledger.from_bytes(content, user.keys, name)


def _whose(origin: Origin, person: str | None) -> tuple[list[int], NDArray[np.bool_]]:
    """Return the number of a person, and which sessions are theirs."""
    numbers = [number for number, name in enumerate(origin.people) if name == person]
    return numbers, np.isin(origin.sessions.people, numbers)


def _without(origin: Origin, person: str) -> tuple[Origin, Sessions]:
    """Return the log without the sessions of a person, and the sessions."""
    numbers, mine = _whose(origin, person)
    gone = origin.sessions.take(np.flatnonzero(mine))
    stay = np.flatnonzero(~mine)
    left = origin.sessions.take(stay)
    number = np.asarray(left.people)
    renumbered = np.where(number < 0, number, number - np.searchsorted(numbers, number))
    size = len(origin.session_counts)
    whose = np.repeat(np.arange(gone.size), gone.lengths)
    rows = np.unique(np.stack([whose, gone.arms]), axis=1)[1]
    persons = np.unique(np.stack([np.repeat(gone.people, gone.lengths), gone.arms]), axis=1)[1]
    counts = np.asarray(origin.session_counts) - np.bincount(rows, minlength=size)
    users = np.asarray(origin.user_counts)
    if origin.k_anonymous:  # else they count sessions
        users = users - np.bincount(persons, minlength=size)
    else:
        users = users - np.bincount(rows, minlength=size)
    total = origin.sessions.size

    def newest(count: int) -> int:
        return int((stay >= total - count).sum())

    return (
        replace(
            origin,
            session_counts=np.maximum(counts, 0),
            user_counts=np.maximum(users, 0),
            sessions=left._replace(people=renumbered),
            people=[name for name in origin.people if name != person],
            held_out=newest(origin.held_out),
            for_replays=None if origin.for_replays is None else newest(origin.for_replays),
        ),
        gone,
    )


def _ended(pool: ArmPool, left: Origin, gone: Sessions) -> Ids:
    """Return the arms of these sessions that too few other users issued."""
    if not left.k_anonymous:
        return np.empty(0, np.int64)
    arms = np.unique(gone.arms)
    few: Ids = arms[left.user_counts[arms] < _min_users(left)]
    return pool.alive(few)


def _min_users(origin: Origin) -> int:
    privacy: Mapping[str, Any] = origin.report.get("privacy") or {}
    return int(privacy.get("min_users", 2))


def _without_texts(pool: ArmPool, arms: Ids) -> dict[str, folders.Part]:
    """Return the texts and vectors of a pool without those of some arms."""
    ended = set(arms.tolist())
    table = Texts()
    table.append([nameless(row) if row in ended else text for row, text in enumerate(pool.texts)])
    vectors = np.array(pool.vectors)
    vectors[arms] = 0.0
    vectors[arms, 0] = 1.0
    parts: dict[str, folders.Part] = {"vectors.npy": vectors, **table.parts()}
    if FILES[0] in pool.parts():
        parts |= Codes.of(vectors).parts()
    return parts


def _without_words(pool: ArmPool, arms: Ids) -> dict[str, folders.Part]:
    """Return the vocabularies of the encoder without words that only these arms have."""
    ended = set(arms.tolist())
    texts = [pool.texts[arm].lower() for arm in ended]
    others = "\n".join(text.lower() for row, text in enumerate(pool.texts) if row not in ended)
    parts: dict[str, folders.Part] = {}
    for name, part in pool.parts().items():
        if name.startswith("encoder_") and name.endswith("words.json"):
            blob = part.read_bytes() if isinstance(part, Path) else part
            assert isinstance(blob, bytes)
            words = json.loads(blob)
            for place, word in enumerate(words):
                if any(word in text for text in texts) and word not in others:
                    words[place] = nameless(place)
            parts[name] = json.dumps(words, ensure_ascii=False).encode()
    return parts


def _blank(shown: Collection[str], arms: Ids) -> list[str]:
    ended = set(arms.tolist())
    return ["" if arm in ended else text for arm, text in enumerate(shown)]
