"""Repair a log: a `void` event takes the place of each event that cannot be read or applied.

Nothing is deleted: a void event keeps the kind and the body of the one it replaces, and why. The
service may run meanwhile: each of its workers recomputes its model afterwards.
"""

from collections.abc import Sequence

from nextquery.arms import ArmPool
from nextquery.errors import Damaged
from nextquery.service.log.events import REPAIR
from nextquery.service.log.make_void import MakeVoid, Repaired
from nextquery.service.log.store import Clock, Store
from nextquery.service.log.writer import Writer
from nextquery.service.model.catalogue import Arms
from nextquery.service.model.learner import Learner


def repair(store: Store, pool: ArmPool) -> list[Repaired]:
    """Replace every event that cannot be read or applied; return what was done, in order.

    `pool` must be the pool of the log (`prepare.check_pool`). Repairing again does nothing.
    """
    done: list[Repaired] = []
    learner = Learner(store, arms=Arms(pool))
    writer = Writer(store, Clock(), written=lambda: None)
    try:
        while learner.position < (head := store.head().position):
            try:
                learner.catch_up(until=head)
                if learner.position < head:
                    raise Damaged(f"events after {learner.position} are missing.")
            except Damaged as error:
                why = str(error).removesuffix(REPAIR).strip()
                state, arms = learner.state, _arms(learner)
                removed, held = frozenset(state.removed), frozenset(state.held)
                void = MakeVoid(learner.position + 1, why, arms, removed, held)
                done.append(writer.submit(void).result())
    finally:
        writer.close()
    return done


def _arms(learner: Learner) -> int:
    """Return how many arm ids are used up, so that a lost arm uses up the next one."""
    known = learner.catalogue
    if known is not None:
        return known.pool.rows_in_all
    state = learner.state  # another pool was served here: its own arms are not known any more
    return max([state.arms_used_up, *(arm.arm + 1 for arm in state.added)])


def warning(done: Sequence[Repaired]) -> str:
    """Say which of an operator's decisions may not hold any more, and what to do; or nothing."""
    positions = ", ".join(str(event.position) for event in done if event.by_operator)
    if not positions:
        return ""
    return (
        f"What an operator decided may not hold any more: void events ({positions}) may have been "
        "a block, the kill switch, a removed arm or a leave-out. Compare GET /v1/operate, GET "
        "/v1/arms and nextquery leave-out --list with what you had, and decide it again."
    )
