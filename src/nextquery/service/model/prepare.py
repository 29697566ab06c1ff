"""Preparing a store: check that it belongs to the pool, and write the model event if needed."""

import contextlib
import logging
import time
from collections.abc import Callable, Collection
from typing import Any
from uuid import uuid4

from nextquery.arms import ArmPool
from nextquery.arms.pool import continued, fingerprint
from nextquery.build.ingest import why_unrecognised
from nextquery.catalogue.catalogue import Catalogue
from nextquery.errors import Damaged, InvalidInput
from nextquery.learning import Learnt
from nextquery.loop import Loop
from nextquery.memory import Memory
from nextquery.policies import Policy
from nextquery.service.log.events import BesideModel, ModelEvent
from nextquery.service.log.operators import LEASE_S, EndLease, NewModel, TakeLease
from nextquery.service.log.store import Clock, Store
from nextquery.service.log.writer import Write, Writer
from nextquery.service.model.arrays import Arrays, packed, to_text, under
from nextquery.service.model.experiment.branches import continuing, loses
from nextquery.service.model.learner import Learner
from nextquery.service.model.model_events import beside, policy_of
from nextquery.service.model.new_pool.change import POOL_LEASE, Change, not_its_pool
from nextquery.service.model.snapshots import newest_state
from nextquery.service.settings.engine_options import EngineOptions
from nextquery.service.settings.split import CONTROL
from nextquery.warm_start import StepProgress, WarmStart, calibrate, warm_start

_log = logging.getLogger("nextquery.service")
_LEASED_S = 0.5  # between two looks whether another process has finished
Ask = Callable[[str], bool]
"""Answers whether live learning may be forgotten, told how much."""


def never(question: str) -> bool:
    """Never forget."""
    return False


def prepare(
    pool: ArmPool,
    store: Store,
    options: EngineOptions,
    *,
    progress: StepProgress | None = None,
    clock: Clock | None = None,
    forget: Ask = never,
    owners: Collection[str] | None = None,
) -> bool:
    """Write a model event if the settings differ from those of the newest model in the log.

    The new model continues the old one: it keeps what was learnt live. If its features do not
    allow that, `forget` is asked first. The warm start is computed here once; other workers read it
    from the log. Call this before you start several workers, or each of them computes it and only
    one result is used. Returns whether a model was written. `owners` are those of the API keys, if
    they are known.
    """
    _warn_of_strangers(pool, options, owners)
    digest = fingerprint(pool)
    while True:
        head = store.head()
        last = store.model(head.model)
        if last is not None and last.pool != digest:
            change = Change.to(pool, last, head.model, store.name)
            if _change(change, store, options, progress, clock, forget):
                return True
            continue
        if last is not None and last.settings == options.of_the_model():
            return False
        if last is not None and loses(last, options.new_policies()):
            why = f"changing the policy from {last.policy} to {options.policy_name}"
            _ask(store, last, why, forget)
        body = first_model(pool, options, progress, digest=digest)
        if last is not None:
            body = continuing(body, last, head.model)
        writer = Writer(store, Clock() if clock is None else clock, written=lambda: None)
        try:
            new = NewModel(body, head.model, pool.rows_in_all)
            if writer.submit(new).result() is not None:
                return True
        finally:
            writer.close()


def _change(
    change: Change,
    store: Store,
    options: EngineOptions,
    progress: StepProgress | None,
    clock: Clock | None,
    forget: Ask,
) -> bool:
    """Change the log to another pool; return False if it has another model by now."""
    learner, holder = Learner(store, newest_state(store)), uuid4().hex
    writer = Writer(store, Clock() if clock is None else clock, written=lambda: None)

    def submit(write: Write[Any]) -> Any:
        return writer.submit(write).result()

    try:
        while not submit(TakeLease(POOL_LEASE, holder, LEASE_S)):
            time.sleep(_LEASED_S)  # a running service changes the pool just now
        learner.catch_up()
        if lost := change.loses(learner.state, options.new_policies()):
            _check_forgets(lost, "serving this pool, which was encoded anew,", forget)
        layout = change.layout(learner.state.announced) or change.announce(submit)
        if layout is None:
            return False
        learner.catch_up()
        arms = change.catalogue(learner.state, layout, options.minimums).pool
        body = first_model(arms, options, progress, digest=change.digest)
        return change.write(body, layout, store, submit) is not None
    finally:
        submit(EndLease(POOL_LEASE, holder))
        writer.close()


def _newest_model(store: Store) -> ModelEvent | None:
    """Return the newest model; None also if it is damaged: whoever reads the log will report it."""
    with contextlib.suppress(Damaged):
        return store.model(store.head().model)
    return None


def _ask(store: Store, last: ModelEvent, what: str, forget: Ask) -> None:
    """Ask before live learning is lost; raise an error if it must not be."""
    lost = live_policy(store).learnt_since(policy_of(last))
    if lost:
        _check_forgets(lost, what, forget)


def _check_forgets(lost: int, what: str, forget: Ask) -> None:
    if not forget(f"{what[0].upper()}{what[1:]} forgets {lost} live updates. Go on?"):
        raise InvalidInput(
            f"{what} would forget {lost} live updates: the two learn from different features. Keep "
            "the policy and the pool, pass a new store, or allow it: nextquery serve --forget."
        )


def live_policy(store: Store) -> Policy:
    """Return the policy at the end of a log, with all that it learnt."""
    learner = Learner(store, newest_state(store))
    learner.catch_up()
    learner.refresh()
    return learner.state.learnt.policy


def first_model(
    pool: ArmPool, options: EngineOptions, progress: StepProgress | None = None, *, digest: str = ""
) -> ModelEvent:
    """Warm-start each policy and its calibration, and return them as a model event."""
    policies, shares = options.new_policies(), options.split
    loop = loop_of(Catalogue(pool, None, **options.minimums), options, Learnt(options.new_policy()))
    if not options.personal:
        loop.memory.names = ()
    arrays, taught = Arrays(), list[WarmStart]()
    for number, (name, policy) in enumerate(policies.items()):
        own = loop.beside(Learnt(policy))
        if name == CONTROL and number:
            taught.append(calibrate(own, own.memory.past, newest=options.warm_sessions))
        else:
            taught.append(_warm(own, options, progress))
        learnt = {
            **under("policy", policy.state()),
            **under("calibration", own.learnt.calibration),
        }
        arrays |= under(beside(number - 1), learnt) if number else learnt
    name, *others = policies
    return ModelEvent(
        policy=name,
        settings=options.of_the_model(),
        warm_steps=taught[0].steps,
        floor=taught[0].floor,
        pool=digest or fingerprint(pool),
        arrays=to_text(packed(arrays)),
        share=shares[name],
        interleaved=options.interleave,
        beside=tuple(
            BesideModel(
                policy=other,
                share=shares[other],
                warm_steps=found.steps,
                floor=found.floor,
            )
            for other, found in zip(others, taught[1:], strict=True)
        ),
    )


def _warm(loop: Loop, options: EngineOptions, progress: StepProgress | None) -> WarmStart:
    return warm_start(
        loop,
        loop.memory.past,
        newest=options.warm_sessions,
        examples=options.warm_examples,
        progress=progress,
    )


def loop_of(catalogue: Catalogue, options: EngineOptions, learnt: Learnt) -> Loop:
    """Return the library's loop with the settings of the service."""
    memory = Memory.of_pool(
        catalogue.pool, options.memory_sessions, half_life=options.half_life_days
    )
    loop = Loop(
        catalogue,
        options.new_selector(),
        learnt,
        memory,
        exploration=options.exploration,
        repeat=options.repeat,
        returns=options.returns,
        fold_similar=options.fold_similar,
        recommend_at_least=options.recommend_at_least,
        schedule=options.new_schedule(),
        reselect=options.reselect,
        seed=options.seed,
    )
    loop.use(learnt)
    return loop


def check_pool(store: Store, pool: ArmPool, *, or_next: bool = False) -> None:
    """Raise an error if the newest model of a log is of another pool.

    With `or_next`, one that continues that pool is right too.
    """
    model = _newest_model(store)
    if model is None or model.pool == fingerprint(pool):
        return
    if continued(pool.origin, model.pool) is None:
        raise not_its_pool(store.name)
    if or_next:
        return
    raise InvalidInput(
        f"the pool was updated, and {store.name} is not served with it yet. A running service "
        "takes it over within a minute; without one, start it: nextquery serve POOL."
    )


def _warn_of_strangers(
    pool: ArmPool, options: EngineOptions, owners: Collection[str] | None
) -> None:
    """Warn if the pool has the pasts of people whom this service can never recognise."""
    if pool.origin is None or not pool.origin.people or not options.personal:
        return
    secret = options.user_hash_secret
    why = why_unrecognised(pool.origin.named_with, user_hash_secret=secret, owners=owners)
    if why is not None:
        _log.warning("the pool has people's own pasts, and nobody gets theirs: %s.", why)
