"""Snapshots: states kept in the store, so that a restart need not read the whole log."""

import hashlib
import logging
import zipfile

from nextquery.service.log.store import Store
from nextquery.service.model.state import State

_log = logging.getLogger("nextquery.service")


def save_snapshot(store: Store, state: State, *, keep: int) -> None:
    """Keep a state, and only the newest `keep` of them."""
    blob = state.to_bytes()
    store.save_snapshot(state.position, hashlib.sha256(blob).hexdigest(), blob, keep=keep)


def snapshot_is_whole(store: Store, position: int) -> bool:
    """Whether a snapshot has the bytes that were saved."""
    found = store.snapshot(position)
    return found is not None and hashlib.sha256(found[1]).hexdigest() == found[0]


def newest_state(store: Store) -> State:
    """Return the newest intact snapshot, or an empty state; warn about each damaged one."""
    for position in store.snapshot_positions():
        snapshot = store.snapshot(position)
        if snapshot is None:
            continue
        sha256, blob = snapshot
        if hashlib.sha256(blob).hexdigest() == sha256:
            try:
                return State.from_bytes(blob)
            except (KeyError, ValueError, TypeError, zipfile.BadZipFile) as error:
                why: object = error
        else:
            why = "its checksum does not match"
        _log.warning("skipping snapshot %d (%s); using an earlier one or the log", position, why)
    return State()
