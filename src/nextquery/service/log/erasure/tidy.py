"""What every worker does by itself: retention, and finishing what an erasure left undone."""

import logging
from collections.abc import Callable

from nextquery.errors import StorageError
from nextquery.service.log.erasure.clean import clean, needs_cleaning
from nextquery.service.log.erasure.forget import Submit, finish, unfinished_since
from nextquery.service.log.erasure.retention import erase_older, first_kept
from nextquery.service.log.store import Store

_log = logging.getLogger("nextquery.service")
ABANDONED_S = 600.0
"""Seconds after which an erasure that does not go on is taken for one that was killed."""
SMALL = 64 << 20
"""Bytes of a store that a service cleans by itself: others wait for less than about a second."""


class Tidy:
    """Looks after the store of a running service.

    Parameters
    ----------
    store : the log.
    submit : writes a change and waits for it.
    days : the setting `retention_days`; None: decisions are kept for ever.
    pause : waits between two transactions; True to stop.
    """

    def __init__(
        self, store: Store, submit: Submit, days: float | None, pause: Callable[[], bool]
    ) -> None:
        self.store, self.days = store, days
        self._submit, self._pause = submit, pause
        self._kept_since = 0.0  # nothing older is left

    def once(self, now: float) -> int:
        """Do what is due at a time of the log's clock; return how many decisions were erased."""
        erased = 0
        since = unfinished_since(self.store)
        if since is not None and now - since > ABANDONED_S:
            finish(self.store, self._submit)
        if self.days is not None:
            before = first_kept(now, self.days)
            if before > self._kept_since:
                erased = erase_older(self.store, before, self._submit, pause=self._pause)
                if not self._pause():
                    self._kept_since = before
                if erased:
                    _log.info("retention: erased %d decisions", erased)
        self.clean_if_small()
        return erased

    def clean_if_small(self) -> bool:
        """Clean the files after an erasure; a large store is left to ``nextquery forget``.

        Returns whether nothing of an erasure is left in the files.
        """
        if not needs_cleaning(self.store):
            return True
        if self.store.size() > SMALL:
            return False
        try:
            clean(self.store)
        except (StorageError, OSError) as error:  # the next look tries again
            _log.warning("could not clean the store after an erasure: %s", error)
            return False
        return True
