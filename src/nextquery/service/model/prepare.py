"""A store made ready: it belongs to this pool, and its log says which model decides."""

from typing import Any

from nextquery.arms import ArmPool
from nextquery.catalogue import Catalogue
from nextquery.errors import InvalidInput
from nextquery.loop import Learnt, Loop
from nextquery.memory import Memory
from nextquery.select import MaxUtility
from nextquery.service.log.arrays import packed, to_text, under
from nextquery.service.log.clock import Clock
from nextquery.service.log.feedback import NewModel
from nextquery.service.log.store import Store
from nextquery.service.log.writer import Writer
from nextquery.service.model.old_policy_names import same_model
from nextquery.service.model.served_catalogue import fingerprint
from nextquery.service.settings.engine_options import EngineOptions
from nextquery.warm_start import Progress, warm_start


def prepare(
    pool: ArmPool,
    store: Store,
    options: EngineOptions,
    *,
    progress: Progress | None = None,
    clock: Clock | None = None,
) -> bool:
    """Write the model event if the settings ask for another model than the log's last.

    The warm start is computed here, once, and read from the log by everybody else. Call it before
    several workers start, or each of them computes it and only one is used. Returns whether a
    model was written.
    """
    mark = fingerprint(pool)
    while True:
        head = store.head()
        last = store.model(head)
        if last is not None:
            _check(last.body["pool"], mark, store)
            if same_model(last.body["settings"], options.of_the_model()):
                return False
        body = {**first_model(pool, options, progress), "pool": mark}
        writer = Writer(store, Clock() if clock is None else clock, written=lambda: None)
        try:
            item = NewModel(body, head.model, pool.rows_in_all)
            if writer.submit(item).result() is not None:
                return True
        finally:
            writer.close()


def first_model(
    pool: ArmPool, options: EngineOptions, progress: Progress | None = None
) -> dict[str, Any]:
    """The body of a model event: a policy that has seen the past, and its calibration."""
    loop = loop_of(Catalogue(pool), options, Learnt(options.new_policy()))
    found = warm_start(
        loop,
        loop.memory.past.sessions,
        newest=options.warm_sessions,
        examples=options.warm_examples,
        progress=progress,
    )
    policy, calibration = loop.learnt.policy.state(), loop.learnt.calibration
    return {
        "policy": options.policy_name,
        "policy_class": type(loop.learnt.policy).__name__,
        "settings": options.of_the_model(),
        "warm_steps": found.steps,
        "floor": found.floor,
        "arrays": to_text(packed({**under("policy", policy), **under("calibration", calibration)})),
    }


def loop_of(catalogue: Catalogue, options: EngineOptions, learnt: Learnt) -> Loop:
    """The library's loop with the settings of the service."""
    memory = Memory.of_pool(catalogue.pool, options.memory_sessions)
    memory.live = learnt.live
    return Loop(
        catalogue,
        MaxUtility(k=options.k),
        learnt,
        memory,
        exploration=options.exploration,
        repeat=options.repeat,
        seed=options.seed,
    )


def _check(theirs: str, ours: str, store: Store) -> None:
    if theirs != ours:
        raise InvalidInput(
            f"{store.name} was begun with another pool: its arm ids mean other queries. Serve the "
            "pool it was begun with, or give a new store."
        )
