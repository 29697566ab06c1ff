"""Prepare a store: check its pool, write the model event, or change to a continued pool.

A pool that continues the one of the log was updated or encoded again. First the ids of the new
rows are taken (`pool_announced`). Then the new model is computed, and its event changes the pool.
A process that dies in between leaves taken ids behind, which the next one uses.
"""

import contextlib
import logging
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

import numpy as np

from nextquery.arms import ArmPool
from nextquery.arms.pool import continued, encoder_digest, fingerprint
from nextquery.arms.remap import IdMap
from nextquery.build.ingest import why_unrecognised
from nextquery.catalogue.catalogue import Catalogue
from nextquery.errors import Damaged, InvalidInput
from nextquery.learning import ModelState
from nextquery.loop import Loop
from nextquery.memory import Memory
from nextquery.policies import Policy
from nextquery.service.log.events import ModelEvent, OtherModel, PoolAnnounced
from nextquery.service.log.operators import (
    LEASE_S,
    AnnouncePool,
    ChangePool,
    EndLease,
    NewModel,
    TakeLease,
)
from nextquery.service.log.store import Clock, Store
from nextquery.service.log.writer import Write, Writer
from nextquery.service.model import experiments
from nextquery.service.model.catalogue import ServedCatalogue
from nextquery.service.model.learner import Learner, newest_state
from nextquery.service.model.state import State
from nextquery.service.settings import CONTROL, EngineOptions
from nextquery.signing import keyed
from nextquery.warm_start import StepProgress, WarmStart, calibrate, warm_start

POOL_LEASE = "pool"
"""The lease of who changes the pool of a log."""
Submit = Callable[[Any], Any]
"""Writes something to the log and returns what its write returns."""
_ANYWHERE = ("", "memory")  # what features that mean the same with any vectors are learnt from


@dataclass(frozen=True)
class PoolChange:
    """A pool that continues the pool of the model at the position `after`."""

    pool: ArmPool
    digest: str
    last: ModelEvent
    after: int
    known: int  #: the rows of the pool before
    reencoded: bool

    @classmethod
    def to(cls, pool: ArmPool, last: ModelEvent, after: int, name: str) -> "PoolChange":
        """Return the change; raise an error if the pool does not continue that of the model.

        `name` is that of the store, for the error.
        """
        before = continued(pool.origin, last.pool)
        if before is None:
            raise not_its_pool(name)
        reencoded = before.encoder != encoder_digest(pool)
        return cls(pool, fingerprint(pool), last, after, before.rows, reencoded)

    def layout(self, announced: PoolAnnounced | None) -> IdMap | None:
        """Return the ids of the rows, if this pool was announced last."""
        if announced is None or announced.pool != self.digest:
            return None
        return IdMap.of(announced.runs, self.pool.rows_in_all)

    def announce(self, submit: Submit) -> IdMap | None:
        """Take ids for the rows; return None if the model is another by now."""
        rows = self.pool.rows_in_all
        made = AnnouncePool(self.digest, self.last.runs, self.known, rows, self.after)
        return self.layout(submit(made))

    def catalogue(
        self, state: State, layout: IdMap, minimums: Mapping[str, int]
    ) -> ServedCatalogue:
        """Return the arms of a state with the new pool."""
        return ServedCatalogue.at(
            self.pool, state, layout, encodes=self.reencoded, minimums=minimums
        )

    def loses(self, state: State, new: Mapping[str, Policy]) -> int:
        """Return how many live updates would be lost: `new` are the policies of the settings."""
        known, lost = experiments.policies_of(self.last), 0
        ends = experiments.loses(self.last, new)
        for number, (name, branch) in enumerate(state.branches().items()):
            means_nothing = self.reencoded and branch.policy.learns not in _ANYWHERE
            if name in known and (means_nothing or (ends and number == 0)):
                lost += branch.policy.updates_since(known[name])
        return lost

    def _continuing(self, body: ModelEvent) -> ModelEvent:
        """Return the model with what its policies keep: features of old vectors mean nothing."""
        kept = experiments.continuing(body, self.last, self.after)
        if not self.reencoded:
            return kept
        policies = experiments.policies_of(body)
        others = tuple(
            one if policies[one.policy].learns in _ANYWHERE else replace(one, continues=None)
            for one in kept.beside
        )
        if policies[body.policy].learns in _ANYWHERE:
            return replace(kept, beside=others)
        return replace(kept, beside=others, continues=None, continued="")

    def write(self, body: ModelEvent, layout: IdMap, store: Store, submit: Submit) -> int | None:
        """Change the pool; return the position, or None if the model is another by now."""
        runs = () if layout.is_plain else layout.runs
        kept = self._continuing(body)
        model = replace(kept, runs=runs, encoded_anew=self.reencoded, pool=self.digest)
        rows = np.arange(self.known, self.pool.rows_in_all)
        secret, texts = store.head().secret, self.pool.texts
        keys = {
            keyed(secret, "text", texts[row]): id
            for row, id in zip(rows.tolist(), layout.ids(rows).tolist(), strict=True)
        }
        written: int | None = submit(ChangePool(model, self.after, keys))
        return written


def not_its_pool(name: str) -> InvalidInput:
    """The error for a pool that a log has never been served with and that does not continue it."""
    return InvalidInput(
        f"{name} was started with another pool, so its arm ids mean other queries. Serve that "
        "pool, or pass a new store; nextquery take-over brings what was learnt into it."
    )


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
    _warn_of_unknown_people(pool, options, owners)
    digest = fingerprint(pool)
    while True:
        head = store.head()
        last = store.model(head.model)
        if last is not None and last.pool != digest:
            change = PoolChange.to(pool, last, head.model, store.name)
            if _change(change, store, options, progress, clock, forget):
                return True
            continue
        if last is not None and last.settings == options.of_the_model():
            return False
        if last is not None and experiments.loses(last, options.new_policies()):
            why = f"changing the policy from {last.policy} to {options.policy_name}"
            _ask(store, last, why, forget)
        body = first_model(pool, options, progress, digest=digest)
        if last is not None:
            body = experiments.continuing(body, last, head.model)
        writer = Writer(store, Clock() if clock is None else clock, written=lambda: None)
        try:
            new = NewModel(body, head.model, pool.rows_in_all)
            if writer.submit(new).result() is not None:
                return True
        finally:
            writer.close()


def _change(
    change: PoolChange,
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
    lost = live_policy(store).updates_since(experiments.policy_of(last))
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
    return learner.state.model_state.policy


def first_model(
    pool: ArmPool, options: EngineOptions, progress: StepProgress | None = None, *, digest: str = ""
) -> ModelEvent:
    """Warm-start each policy and its calibration, and return them as a model event."""
    policies, shares = options.new_policies(), options.split
    loop = loop_of(
        Catalogue(pool, None, **options.minimums), options, ModelState(options.new_policy())
    )
    if not options.personal:
        loop.memory.names = ()
    arrays, taught = experiments.Arrays(), list[WarmStart]()
    for number, (name, policy) in enumerate(policies.items()):
        own = loop.with_model(ModelState(policy))
        if name == CONTROL and number:
            taught.append(calibrate(own, own.memory.past, newest=options.warm_sessions))
        else:
            taught.append(_warm(own, options, progress))
        arrays_of_policy = {
            **experiments.under("policy", policy.state()),
            **experiments.under("calibration", own.model_state.calibration),
        }
        arrays |= (
            experiments.under(experiments.other_folder(number - 1), arrays_of_policy)
            if number
            else arrays_of_policy
        )
    name, *others = policies
    return ModelEvent(
        policy=name,
        settings=options.of_the_model(),
        warm_steps=taught[0].steps,
        floor=taught[0].floor,
        pool=digest or fingerprint(pool),
        arrays=experiments.to_text(experiments.packed(arrays)),
        share=shares[name],
        interleaved=options.interleave,
        beside=tuple(
            OtherModel(
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


def loop_of(catalogue: Catalogue, options: EngineOptions, model_state: ModelState) -> Loop:
    """Return the library's loop with the settings of the service."""
    memory = Memory.of_pool(
        catalogue.pool, options.memory_sessions, half_life=options.half_life_days
    )
    loop = Loop(
        catalogue,
        options.new_selector(),
        model_state,
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
    loop.use(model_state)
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


def _warn_of_unknown_people(
    pool: ArmPool, options: EngineOptions, owners: Collection[str] | None
) -> None:
    """Warn if the pool has the pasts of people whom this service can never recognise."""
    if pool.origin is None or not pool.origin.people or not options.personal:
        return
    secret = options.user_hash_secret
    why = why_unrecognised(pool.origin.named_with, user_hash_secret=secret, owners=owners)
    if why is not None:
        _log.warning("the pool has people's own pasts, and nobody gets theirs: %s.", why)
