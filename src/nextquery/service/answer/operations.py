"""What an operator does with the engine: blocks, the kill switch, and arms under review."""

from typing import TypeVar

from nextquery.errors import InvalidInput
from nextquery.service.answer.inputs import check_query
from nextquery.service.log.controls import Control
from nextquery.service.log.events import ArmHeld, Blocked, Switched, Unblocked
from nextquery.service.log.hashes import Hashes
from nextquery.service.log.new_arms.review import (
    ApproveArm,
    ArmText,
    RejectArm,
    RemoveArm,
    listed_arm_texts,
)
from nextquery.service.log.store import Store
from nextquery.service.log.transaction import Write
from nextquery.service.log.writer import Writer
from nextquery.service.model.learner import Learner
from nextquery.service.model.served_catalogue import ServedCatalogue

Result = TypeVar("Result")


class Operations:
    """The part of the engine that only operators use; each change returns its log position."""

    store: Store
    writer: Writer
    learner: Learner
    catalogue: ServedCatalogue
    hashes: Hashes

    def block(self, query: str) -> int:
        """Stop recommending this query; return the position of the event."""
        return self._change(Control(Blocked(self.catalogue.key(check_query(query)))))

    def unblock(self, query: str) -> int:
        """Remove a block; return the position of the event."""
        return self._change(Control(Unblocked(self.catalogue.key(check_query(query)))))

    def switch(self, on: bool) -> int:
        """Set the kill switch (off: every slate is empty); return the position of the event."""
        return self._change(Control(Switched(bool(on))))

    def remove(self, query: str) -> int:
        """Remove an arm for good: its query never becomes an arm again."""
        self.learner.catch_up()
        arm = self.catalogue.find_exactly(check_query(query))
        if arm is None:
            raise InvalidInput(
                f"{query[:80]!r} is not an arm, so there is nothing to remove. To keep a query "
                "from being shown, block it; to refuse one that is held for review, reject it."
            )
        text_key = self.hashes.text(self.catalogue.pool.texts[arm])
        return self._change(RemoveArm(arm, text_key, self.catalogue.shown(arm)))

    def approve(self, query: str) -> int:
        """Make an arm of a query that is held for review."""
        held = self._held(query)
        return self._change(ApproveArm(self.hashes.text(held.text), held))

    def reject(self, query: str) -> int:
        """Refuse a query that is held for review: it never becomes an arm."""
        held = self._held(query)
        return self._change(RejectArm(self.hashes.text(held.text), held.text))

    def arm_texts(self, limit: int) -> tuple[list[ArmText], int]:
        """Return held, new, rejected and removed arms (see `listed_arm_texts`)."""
        return listed_arm_texts(self.store, limit)

    def _held(self, query: str) -> ArmHeld:
        self.learner.catch_up()
        text = self.catalogue.key(check_query(query))
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
