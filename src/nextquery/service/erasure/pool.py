"""Erase a person from the served pool: their sessions, and arms that too few others asked.

Only a pool that was made with `--personal` knows whose its sessions were. It is searched under
the keyed hashes of the person. Ids stay: an arm that ends leaves a row without a text, and with a
vector that says nothing. A pool that keeps its rows for updates (`nextquery.logs.ledger`) erases
the person's rows, and counts exactly who else asked the same queries. The new folder replaces the
old one in one step, and the old files are deleted.
"""

import contextlib
import json
import os
import shutil
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nextquery import folders
from nextquery.arms import ArmPool
from nextquery.arms.coded import FILES, Codes
from nextquery.arms.origin import Origin
from nextquery.arms.pool import KIND, VERSION, fingerprint
from nextquery.arms.texts import Texts, placeholder_text
from nextquery.build.ingest import why_unrecognised
from nextquery.build.reencode import UNPLACED
from nextquery.build.update import REMOVED_BY_UPDATES
from nextquery.errors import InvalidInput
from nextquery.folders import work_on
from nextquery.learning import ModelState
from nextquery.logs.cleaning import person_hash
from nextquery.logs.ledger import Keys, Ledger
from nextquery.loop import Loop
from nextquery.segments import key_of, segment_of
from nextquery.sessions import Ids, Sessions


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
            ledger_of(pool.origin, user, "the ledger of the pool")
    except InvalidInput:
        return False
    return True


def sessions_of(pool: ArmPool, user: InPool) -> list[dict[str, Any]]:
    """Return the sessions of a person in a pool, as JSON values."""
    origin = pool.origin
    if origin is None or user.person not in origin.people:
        return []
    theirs = origin.sessions.take(np.flatnonzero(sessions_of_person(origin, user.person)[1]))
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


def ledger_of(origin: Origin, user: InPool, name: str) -> Ledger | None:
    """Return what a pool remembers of its rows; None if it has no ledger. `name` is for errors."""
    if origin.ledger is None or user.keys is None:
        return None
    content = origin.ledger if isinstance(origin.ledger, bytes) else origin.ledger.read_bytes()
    return Ledger.from_bytes(content, user.keys, name)


def sessions_of_person(origin: Origin, person: str | None) -> tuple[list[int], NDArray[np.bool_]]:
    """Return the number of a person, and which sessions are theirs."""
    numbers = [number for number, name in enumerate(origin.people) if name == person]
    return numbers, np.isin(origin.sessions.people, numbers)


_LINEAGE = "vectors_begin_with"


class ErasedFromPool(NamedTuple):
    """The sessions and their queries that left a pool, and the arms that ended."""

    sessions: int = 0
    queries: int = 0
    arms: tuple[int, ...] = ()
    anything: bool = False  #: whether the pool knew the person


NOT_IN_POOL = ErasedFromPool()


@dataclass(frozen=True)
class PoolErasure:
    """What leaves a pool, before it is written: `texts` has all spellings of the arms that end."""

    pool: ArmPool | None = None
    left: Origin | None = None
    ended: tuple[int, ...] = ()
    erased: ErasedFromPool = NOT_IN_POOL

    @property
    def texts(self) -> frozenset[str]:
        """The texts of arms that end, as the pool has them and as it shows them, as keys."""
        if self.pool is None or self.pool.origin is None:
            return frozenset()
        keys = [self.pool.texts[arm] for arm in self.ended]
        shown = [self.pool.origin.shown[arm] for arm in self.ended]
        spelt = [key_of(segment_of(key), text) for key, text in zip(keys, shown, strict=True)]
        return frozenset(keys + spelt)

    def write(self) -> None:
        """Replace the pool's folder."""
        pool, left, ended = self.pool, self.left, np.array(self.ended, np.int64)
        if pool is None or left is None or pool.folder is None:
            return
        parts = {name: part for name, part in pool.parts().items() if not name.startswith("log_")}
        meta = pool.meta()
        if len(ended):
            known_as = f"{pool.rows_in_all} {fingerprint(pool)}"
            report = {**left.report}
            for name in (
                REMOVED_BY_UPDATES,
                UNPLACED,
            ):  # those arms may return, but these have no text now
                if name in report:
                    report[name] = np.setdiff1d(report[name], ended).tolist()
            shown = _blank(left.shown, ended)
            left = replace(left, known_as=known_as, shown=shown, report=report)
            parts |= _without_texts(pool, ended) | _without_words(pool, ended)
            removed = np.union1d(pool.removed, ended)
            parts["removed.npy"], meta["arms"] = removed, pool.rows_in_all - len(removed)
            meta.pop(_LINEAGE, None)
        parts |= left.parts()
        meta["log"] = left.meta()
        folders.write(pool.folder.path, kind=KIND, version=VERSION, parts=parts, meta=meta)


@contextlib.contextmanager
def leaving(path: str | os.PathLike[str], user: InPool) -> Iterator[PoolErasure]:
    """Find out what of a user leaves the pool at `path`; nobody else writes the pool meanwhile.

    What an interrupted ingest left beside it goes too, since that may know them.
    """
    folder = Path(path)
    with work_on(folder) as work:  # an update at the same time would bring them back
        try:
            yield _planned_erasure(folder, user)
        finally:
            shutil.rmtree(work, ignore_errors=True)


def forget_in_pool(path: str | os.PathLike[str], user: InPool) -> ErasedFromPool:
    """Take a user out of the pool at `path`."""
    with leaving(path, user) as pool_erasure:
        pool_erasure.write()
        return pool_erasure.erased


def _planned_erasure(folder: Path, user: InPool) -> PoolErasure:
    pool = ArmPool.open(folder)
    before = pool.origin
    if before is None:
        return PoolErasure()
    left, erased = before, Sessions.of([])
    if user.person is not None and user.person in before.people:
        left, erased = _without(left, user.person)
    few = np.unique(erased.arms)
    few = few[left.user_counts[few] < _min_users(left)]
    ledger = ledger_of(before, user, f"the ledger of {folder}")
    if ledger is not None and user.keys is not None and ledger.knows(user.row or b""):
        assert user.row is not None
        others, least = ledger.others(user.row), _min_users(before)
        issued = {arm: others.get(user.keys.of("text", t)) for arm, t in enumerate(pool.texts)}
        counts = {arm: count for arm, count in issued.items() if count is not None}
        users = np.array(left.user_counts)
        for arm in pool.alive(counts).tolist():
            users[arm] = counts[arm]
        few = np.array([arm for arm, count in counts.items() if count < least], np.int64)
        rows = ledger.without_user(user.row, least).to_bytes(user.keys)
        left = replace(left, ledger=rows, user_counts=users)
    if left is before:
        return PoolErasure()
    ended = tuple(arm for arm in few.tolist() if pool.texts[arm] != placeholder_text(arm))
    arms = tuple(pool.alive(ended).tolist())
    return PoolErasure(pool, left, ended, ErasedFromPool(erased.size, len(erased.arms), arms, True))


def use_after_erasure(loop: Loop, model_state: ModelState, pool: ArmPool) -> None:
    """Recommend with what was learnt anew, and without the pasts of people whom the pool forgot.

    What others asked after them stays in memory until the service is started again.
    """
    loop.use(model_state)
    folder = getattr(pool, "folder", None)
    if folder is None or pool.origin is None or not pool.origin.people:
        return
    now = folders.newest(folder)
    loop.memory.own_log.keep(Origin.of(now, now.meta["log"]).people)


def _without(origin: Origin, person: str) -> tuple[Origin, Sessions]:
    """Return the log without the sessions of a person, and the sessions."""
    numbers, mine = sessions_of_person(origin, person)
    erased = origin.sessions.take(np.flatnonzero(mine))
    stay = np.flatnonzero(~mine)
    left = origin.sessions.take(stay)
    number = np.asarray(left.people)
    renumbered = np.where(number < 0, number, number - np.searchsorted(numbers, number))
    size = len(origin.session_counts)
    of = np.repeat(np.arange(erased.size), erased.lengths)
    rows = np.unique(np.stack([of, erased.arms]), axis=1)[1]
    owners = np.repeat(erased.people, erased.lengths)
    persons = np.unique(np.stack([owners, erased.arms]), axis=1)[1]
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
            for_replays=newest(origin.for_replays),
        ),
        erased,
    )


def _min_users(origin: Origin) -> int:
    if not origin.k_anonymous:
        return 1
    privacy: Mapping[str, Any] = origin.report.get("privacy") or {}
    return int(privacy.get("min_users", 2))


def _without_texts(pool: ArmPool, arms: Ids) -> dict[str, folders.Part]:
    """Return the texts and vectors of a pool without those of some arms."""
    ended = set(arms.tolist())
    table = Texts()
    table.append(
        [placeholder_text(row) if row in ended else text for row, text in enumerate(pool.texts)]
    )
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
                    words[place] = placeholder_text(place)
            parts[name] = json.dumps(words, ensure_ascii=False).encode()
    return parts


def _blank(shown: Collection[str], arms: Ids) -> list[str]:
    ended = set(arms.tolist())
    return ["" if arm in ended else text for arm, text in enumerate(shown)]
