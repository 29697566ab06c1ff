"""The arms of a log with their vectors, from its events and its pool."""

from collections.abc import Iterator

from nextquery.arms import ArmPool
from nextquery.arms.remap import Layout, LiveArm, lay_out, vector_of
from nextquery.service.log.events import ArmAdded, ModelEvent
from nextquery.service.log.store import Store


def added(store: Store, pool: ArmPool) -> Iterator[tuple[int, LiveArm]]:
    """Yield the arms that were added live, each with its id, and with vectors of the pool.

    A vector in the log may be of an earlier encoder; then the pool's encodes the text.
    """
    head = store.head().position
    models = ((event.position, event.body) for event in store.of_kind(ModelEvent.kind, head))
    anew = [at for at, body in models if isinstance(body, ModelEvent) and body.encoded_anew]
    for event in store.of_kind(ArmAdded.kind, head):
        if isinstance(event.body, ArmAdded):
            arm, old = event.body, bool(anew) and event.position < anew[-1]
            row = vector_of(pool, arm.text) if old or not arm.vector else arm.row()
            yield arm.arm, LiveArm(arm.text, arm.shown, row)


def pool_by_id(store: Store, pool: ArmPool) -> ArmPool:
    """Return a pool under the ids that its rows have in a log."""
    model = store.model(store.head().model)
    if model is None or not model.runs:
        return pool
    layout = Layout.of(model.runs, pool.rows_in_all)
    return lay_out(pool, layout, {id: arm for id, arm in added(store, pool) if id < layout.end})
