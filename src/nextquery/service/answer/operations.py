"""What operators do with the engine: blocks, patterns, the kill switch, arms under review."""

from collections.abc import Sequence
from typing import TypeVar

from nextquery.catalogue.rules import MOST_PATTERNS
from nextquery.checks import whole_number
from nextquery.errors import InvalidInput
from nextquery.segments import check_segment, key_of
from nextquery.service.answer.inputs import check_query
from nextquery.service.answer.operators.curation import listed_pins, to_curate, to_pin, to_unpin
from nextquery.service.log.events import (
    ArmHeld,
    Blocked,
    By,
    PatternAllowed,
    PatternBlocked,
    Switched,
    Unblocked,
)
from nextquery.service.log.operators import (
    ApproveArm,
    ArmText,
    Control,
    RejectArm,
    RemoveArm,
    listed_arm_texts,
)
from nextquery.service.log.store import Hashes, Store
from nextquery.service.log.teaching import EndFallback, Forward, RollBack
from nextquery.service.log.writer import Write, Writer
from nextquery.service.model.catalogue import ServedCatalogue
from nextquery.service.model.learner import Learner

Result = TypeVar("Result")


class Operations:
    """The part of the engine that only operators use; each change returns its log position."""

    store: Store
    writer: Writer
    learner: Learner
    catalogue: ServedCatalogue
    hashes: Hashes

    def block(self, query: str, by: By | None = None) -> int:
        """Stop recommending this query; return the position of the event."""
        return self._change(Control(Blocked(self.catalogue.key(check_query(query)), by)))

    def unblock(self, query: str, by: By | None = None) -> int:
        """Remove a block; return the position of the event."""
        return self._change(Control(Unblocked(self.catalogue.key(check_query(query)), by)))

    def block_pattern(self, pattern: str, by: By | None = None) -> int:
        """Stop recommending what this pattern matches; return the position of the event."""
        cleaned = self.catalogue.pattern(pattern).text
        known = self.catalogue.excluded.patterns
        if len(known) >= MOST_PATTERNS and cleaned not in known:
            raise InvalidInput(
                f"{len(known)} patterns are blocked, and at most {MOST_PATTERNS} may be. Allow "
                "some again, or use one with * for several."
            )
        return self._change(Control(PatternBlocked(cleaned, by)))

    def allow_pattern(self, pattern: str, by: By | None = None) -> int:
        """Allow again what a blocked pattern matches; return the position of the event."""
        cleaned = self.catalogue.pattern(pattern).text
        self.learner.catch_up()
        if cleaned not in self.catalogue.excluded.patterns:
            raise InvalidInput(
                f"the pattern {cleaned!r} is not blocked. GET /v1/patterns lists those that are."
            )
        return self._change(Control(PatternAllowed(cleaned, by)))

    def patterns(self) -> list[tuple[str, int]]:
        """Return the blocked patterns in order, each with the number of arms that it hides."""
        self.learner.catch_up()
        with self.learner.lock:
            excluded = self.catalogue.excluded
            return [(text, len(excluded.arms_of(text))) for text in sorted(excluded.patterns)]

    def curate(self, queries: Sequence[str], by: By, *, segment: str = "") -> int:
        """Make arms of queries that may be suggested although nobody asked; return how many."""
        self.learner.catch_up()
        model = self.learner.state.model
        return self._change(to_curate(self.catalogue, self.hashes, queries, segment, by, model))

    def pin(
        self, query: str, after: str | None = None, by: By | None = None, *, segment: str = ""
    ) -> int:
        """Always show a query at the top after another, or after every one; return the position."""
        self.learner.catch_up()
        return self._change(to_pin(self.catalogue, query, after, segment, by))

    def unpin(
        self, query: str, after: str | None = None, by: By | None = None, *, segment: str = ""
    ) -> int:
        """Remove a pin; return the position of the event."""
        self.learner.catch_up()
        return self._change(to_unpin(self.catalogue, query, after, segment, by))

    def pins(self) -> list[dict[str, str | None]]:
        """Return the pins in force."""
        self.learner.catch_up()
        with self.learner.lock:
            return listed_pins(self.catalogue)

    def switch(self, on: bool, by: By | None = None) -> int:
        """Set the kill switch (off: every slate is empty); return the position of the event."""
        return self._change(Control(Switched(bool(on), by)))

    def roll_back(self, to: int, by: By | None = None) -> int:
        """Make the model what it was at a position; every worker computes it in the background."""
        return self._change(RollBack(whole_number(to, "to", at_least=0), by))

    def forward(self, by: By | None = None) -> int:
        """End the newest roll-back, as if it had never been."""
        return self._change(Forward(by))

    def end_fallback(self, by: By | None = None, policy: str | None = None) -> int:
        """Let a policy that fell back answer again; without a name, all of them."""
        return self._change(EndFallback(by, policy))

    def remove(self, query: str, by: By | None = None, *, segment: str = "") -> int:
        """Remove an arm of a segment for good: its query never becomes an arm of it again."""
        self.learner.catch_up()
        arm = self.catalogue.find_exactly(check_query(query), check_segment(segment))
        if arm is None:
            raise InvalidInput(
                f"{query[:80]!r} is not an arm, so there is nothing to remove. To keep a query "
                "from being shown, block it; to refuse one that is held for review, reject it."
            )
        text_key = self.hashes.text(self.catalogue.pool.texts[arm])
        shown = key_of(check_segment(segment), self.catalogue.shown(arm))
        return self._change(RemoveArm(arm, text_key, shown, by))

    def approve(self, query: str, by: By | None = None, *, segment: str = "") -> int:
        """Make an arm of a query that is held for review in a segment."""
        model, held = self.learner.state.model, self._held(query, segment)
        return self._change(ApproveArm(self.hashes.text(held.text), held, by, model))

    def reject(self, query: str, by: By | None = None, *, segment: str = "") -> int:
        """Refuse a query that is held for review: it never becomes an arm of its segment."""
        held = self._held(query, segment)
        return self._change(RejectArm(self.hashes.text(held.text), held.text, by))

    def arm_texts(self, limit: int) -> tuple[list[ArmText], int]:
        """Return held, new, rejected and removed arms (see `listed_arm_texts`)."""
        return listed_arm_texts(self.store, limit)

    def _held(self, query: str, segment: str) -> ArmHeld:
        self.learner.catch_up()
        text = self.catalogue.place(check_query(query), check_segment(segment)).text
        with self.learner.lock:
            held = self.learner.state.held.get(text)
        if held is None:
            raise InvalidInput(
                f"{query[:80]!r} is not held for review. GET /v1/arms lists the held queries."
            )
        return held

    def _change(self, write: Write[Result]) -> Result:
        done = self.writer.submit(write).result()
        self.learner.catch_up()
        return done
