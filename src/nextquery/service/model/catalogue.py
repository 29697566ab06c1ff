"""The arms of the service: a copy of the pool that only events change."""

import base64
from collections.abc import Mapping, Sequence
from functools import cached_property
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from nextquery.arms import ArmPool
from nextquery.arms.pool import fingerprint
from nextquery.arms.remap import IdMap, LiveArm, lay_out, vector_of
from nextquery.arms.texts import matched, placeholder_text
from nextquery.catalogue.catalogue import Catalogue
from nextquery.catalogue.rules import MIN_HITS
from nextquery.errors import Damaged, InvalidInput
from nextquery.policies.packed import unpack
from nextquery.service.log import events
from nextquery.service.model.state import State, unusable

NO_MINIMUMS: Mapping[str, int] = MappingProxyType({})


class ServedCatalogue(Catalogue):
    """A catalogue that follows the log.

    `encodes` says that vectors in the log are of another encoder than that of the pool: the pool's
    encodes the texts then.
    """

    def __init__(self, pool: ArmPool, *, min_letters: int = 0, min_hits: int = MIN_HITS) -> None:
        super().__init__(pool.copy(), min_letters=min_letters, min_hits=min_hits)
        self.encodes, self.digest = False, fingerprint(pool)
        if self.pool.origin is not None:
            self.pool.origin.arm_of_readable("")  # makes its table, so that nobody waits for it

    @classmethod
    def at(
        cls,
        pool: ArmPool,
        state: State,
        layout: IdMap | None = None,
        *,
        encodes: bool = False,
        minimums: Mapping[str, int] = NO_MINIMUMS,
    ) -> "ServedCatalogue":
        """Return the arms of a state, with the rows of a pool under the ids of a layout.

        By default that of the state's model.
        """
        if layout is None:
            runs = () if state.model_event is None else state.model_event.runs
            layout = IdMap.of(runs, pool.rows_in_all)
        live, digest = (
            {arm.arm: arm for arm in state.added if arm.arm < layout.end},
            fingerprint(pool),
        )
        if not layout.is_plain:
            rows = {id: _row(arm, pool, encodes=encodes) for id, arm in live.items()}
            arms = {id: LiveArm(arm.text, arm.shown, rows[id]) for id, arm in live.items()}
            pool = lay_out(pool, layout, arms)
        self = cls(pool, **minimums)
        self.encodes, self.digest = encodes, digest
        if pool.origin is None and not layout.is_plain:
            self.show({id: arm.shown for id, arm in live.items()})
        self.restore(state, after=0 if layout.is_plain else layout.end)
        return self

    def restore(self, state: State, *, after: int = 0) -> None:
        """Take over the arms of a snapshot, but for those with ids below `after`."""
        for arm in state.added:
            if arm.arm >= after:
                self._add(arm)
        self._use_up(state.arms_used_up)
        if state.removed:
            self.pool.remove(state.removed)
        for text in state.blocked:
            self.block_text(text)
        for pattern in state.patterns:
            self.block_pattern(pattern)
        self.pins = state.pins.copy()
        self.version += 1

    def check(self, event: events.Event) -> None:
        """Raise `Damaged` if an event does not fit the arms."""
        rows = self.pool.rows_in_all
        match event.body:
            case events.DecisionEvent() as body:
                shown = [arm for arm in body.arms if arm >= 0 or body.own is None]
                arms = [*shown, *body.history, *body.kept, body.anchor_arm or 0]
                if not 0 <= min(arms) <= max(arms) < max(rows, 1):
                    raise unusable(event, f"it names an arm that is not one of the {rows}")
                step = unpack(base64.b64decode(body.failures))
                if step.arms is not None and step.arms.ids.max() >= rows:
                    raise unusable(event, f"it would teach an arm that is not one of the {rows}")
                if body.own is not None and body.own.text:
                    self._check_row(event, body.own)
            case events.ArmAdded() as added:
                if added.arm != rows:
                    raise unusable(event, f"it adds arm {added.arm}, and {rows} is the next id")
                if added.vector and not self.encodes:
                    self._check_row(event, added)
            case events.PatternBlocked(pattern):
                try:
                    self.pattern(pattern)
                except InvalidInput:  # its message quotes it
                    raise unusable(event, "its pattern is not valid") from None
            case events.ArmRemoved(arm):
                self._check_removed(event, (arm,))
            case events.Erased() as erased:
                self._check_removed(event, erased.arms)

    def _check_removed(self, event: events.Event, arms: Sequence[int]) -> None:
        rows = self.pool.rows_in_all
        for arm in arms:
            if not 0 <= arm < rows:
                raise unusable(event, f"it removes arm {arm}, and there are {rows}")

    def _check_row(self, event: events.Event, record: events.ArmAdded | events.OwnAsked) -> None:
        try:
            row = record.row()
            matched([record.text], [] if row is None else row[None], dim=self.pool.dim)
        except ValueError:  # its message may quote the text
            raise unusable(event, "its text or its vector is not valid") from None

    def follow(self, event: events.Event) -> None:
        """Apply an event that changes arms and has passed `check`; ignore the others."""
        match event.body:
            case events.ArmAdded() as arm:
                self._add(arm)
            case events.ArmRemoved(arm_id):
                self.remove(arm_id)
            case events.Blocked(text):
                self.block_text(text)
            case events.Unblocked(text):
                self.unblock_text(text)
            case events.PatternBlocked(pattern):
                self.block_pattern(pattern)
            case events.PatternAllowed(pattern):
                self.unblock_pattern(pattern)
            case events.Pinned(text, after):
                self.pins.pin(text, after)
            case events.Unpinned(text, after):
                self.pins.unpin(text, after)
            case events.Void() | events.Forgotten() | events.PoolAnnounced() as used:
                self._use_up(used.arms)
            case events.Erased() as erased:
                self._forget(erased.arms)

    def _forget(self, arms: Sequence[int]) -> None:
        """Remove arms and the texts of those that were added, so that they may be arms again."""
        for arm in arms:
            self._shown.pop(arm, None)
            self.pool.texts.take_out(arm, placeholder_text(arm))
            self.remove(arm)
        self.version += 1  # what is cached may be of whoever was forgotten

    def _add(self, arm: events.ArmAdded) -> None:
        """Add an arm under its id.

        A text that was an arm before keeps its first id: the row of the second is never selected.
        The same holds for ids between, whose events are void.
        """
        if arm.arm < self.pool.rows_in_all:
            raise Damaged(
                f"the snapshot adds arm {arm.arm}, and this pool has {self.pool.rows_in_all}: the "
                "store belongs to another pool."
            )
        self._use_up(arm.arm)
        if self.pool.texts.ids_of(arm.text):
            self._use_up(arm.arm + 1)
        else:
            row = _row(arm, self.pool, encodes=self.encodes)
            if row is None:
                self.remove(self.add(arm.text, self._unit, arm.shown))
            else:
                self.add(arm.text, row, arm.shown)

    def _use_up(self, arms: int) -> None:
        """Use up the ids below `arms` with rows that are never selected."""
        while self.pool.rows_in_all < arms:
            self.remove(self.add(placeholder_text(self.pool.rows_in_all), self._unit))

    @cached_property
    def _unit(self) -> NDArray[np.float32]:
        unit = np.zeros(self.pool.dim, np.float32)
        unit[0] = 1.0
        return unit


def _row(arm: events.ArmAdded, pool: ArmPool, *, encodes: bool) -> NDArray[np.float32] | None:
    """Return the vector of an arm; None if the encoder knows none of its words."""
    if arm.vector and not encodes:
        return arm.row()
    return vector_of(pool, arm.text)


class PoolOfLog:
    """The arms of a log with the pool of its end, which may have had others before.

    Until the log comes to the pool, there is no catalogue, and nothing is checked against arms.
    """

    def __init__(self, pool: ArmPool, **minimums: int) -> None:
        self.pool, self.digest, self.minimums = pool, fingerprint(pool), minimums

    def at(self, state: State) -> ServedCatalogue | None:
        """Return the catalogue of a state; None if another pool was served then."""
        event = state.model_event
        if event is not None and event.pool != self.digest:
            return None
        return ServedCatalogue.at(self.pool, state, minimums=self.minimums)
