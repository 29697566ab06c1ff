"""Preparing a store: check that it belongs to the pool, and write the model event if needed."""

from nextquery.arms import ArmPool
from nextquery.catalogue import Catalogue
from nextquery.errors import InvalidInput
from nextquery.loop import Learnt, Loop
from nextquery.memory import Memory
from nextquery.select import MaxUtility
from nextquery.service.log.clock import Clock
from nextquery.service.log.controls import NewModel
from nextquery.service.log.events import ModelEvent
from nextquery.service.log.store import Store
from nextquery.service.log.writer import Writer
from nextquery.service.model.arrays import packed, to_text, under
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
    """Write a model event if the settings differ from those of the newest model in the log.

    The warm start is computed here once; other workers read it from the log. Call this before you
    start several workers, or each of them computes it and only one result is used. Returns
    whether a model was written.
    """
    digest = fingerprint(pool)
    while True:
        head = store.head()
        last = store.model(head)
        if last is not None:
            _check(last.pool, digest, store)
            if same_model(last.settings, options.of_the_model()):
                return False
        body = first_model(pool, options, progress, digest=digest)
        writer = Writer(store, Clock() if clock is None else clock, written=lambda: None)
        try:
            new = NewModel(body, head.model, pool.rows_in_all)
            if writer.submit(new).result() is not None:
                return True
        finally:
            writer.close()


def first_model(
    pool: ArmPool, options: EngineOptions, progress: Progress | None = None, *, digest: str = ""
) -> ModelEvent:
    """Warm-start a policy and its calibration, and return them as a model event."""
    loop = loop_of(Catalogue(pool), options, Learnt(options.new_policy()))
    taught = warm_start(
        loop,
        loop.memory.past.sessions,
        newest=options.warm_sessions,
        examples=options.warm_examples,
        progress=progress,
    )
    policy, calibration = loop.learnt.policy.state(), loop.learnt.calibration
    arrays = {**under("policy", policy), **under("calibration", calibration)}
    return ModelEvent(
        policy=options.policy_name,
        policy_class=type(loop.learnt.policy).__name__,
        settings=options.of_the_model(),
        warm_steps=taught.steps,
        floor=taught.floor,
        pool=digest or fingerprint(pool),
        arrays=to_text(packed(arrays)),
    )


def loop_of(catalogue: Catalogue, options: EngineOptions, learnt: Learnt) -> Loop:
    """Return the library's loop with the settings of the service."""
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


def _check(stored: str, digest: str, store: Store) -> None:
    if stored != digest:
        raise InvalidInput(
            f"{store.name} was started with another pool, so its arm ids mean other queries. Serve "
            "that pool, or pass a new store."
        )
