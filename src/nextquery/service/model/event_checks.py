"""Whether an event can be applied: checked before anything changes, so that nothing half changes.

Errors name the position and the kind of an event, never its text, which may be a query.
"""

import base64
from collections.abc import Sequence

import numpy as np

from nextquery.errors import Damaged, InvalidInput, NextqueryError, StoreUnavailable
from nextquery.learning import Example, Observed, Replaced
from nextquery.policies import Policy
from nextquery.policies.packed import unpack
from nextquery.service.log.events import (
    REPAIR,
    DecisionEvent,
    Event,
    ModelEvent,
    OutcomeEvent,
    OwnAsked,
    RolledBack,
)
from nextquery.service.log.store import is_time
from nextquery.service.model.experiment.branches import begin
from nextquery.service.model.past import Past
from nextquery.service.model.state import State

_LARGEST = 1e6  # of a feature: far above any real one, and its square is still a number


def check(event: Event, state: State, past: Past) -> None:
    """Raise `Damaged` if the state cannot take the event."""
    if event.position != state.position + 1:
        raise Damaged(
            f"the log has event {event.position} after event {state.position}: events are "
            f"missing. {REPAIR}"
        )
    if not is_time(event.time):
        raise unusable(event, "its time is no time")
    try:
        match event.body:
            case DecisionEvent() as body:
                own = [arm for arm in body.arms if arm < 0]
                own = [] if body.own else own
                _check_ids([*own, *body.history, *body.kept, body.anchor_arm or 0])
                unpack(base64.b64decode(body.failures, validate=True))
                if body.own is not None:
                    _check_own(body.own)
            case OutcomeEvent() as body:
                _check_outcome(event, body, state, past)
            case RolledBack() as body:
                if body.to is not None and body.to >= event.position:
                    raise InvalidInput(f"it rolls back to {body.to}, which is not before it")
            case ModelEvent() as body:
                _check_model(event, body, state, past)
    except StoreUnavailable:
        raise
    except Exception as error:  # a damaged event may fail in any way
        raise unusable(event, _why(error)) from None


def unusable(event: Event, why: str) -> Damaged:
    """The error for an event that cannot be applied."""
    return Damaged(f"event {event.position} ({event.kind}) cannot be applied: {why}. {REPAIR}")


def _why(error: Exception) -> str:
    """The reason in words: ours, or the kind of another error, whose message may quote a text."""
    return str(error).rstrip(".") if isinstance(error, NextqueryError) else type(error).__name__


def _check_ids(arms: Sequence[int]) -> None:
    if min(arms, default=0) < 0:
        raise InvalidInput("it has a negative arm id")


def _check_own(own: OwnAsked) -> None:
    row = own.row()
    if bool(own.text) != (row is not None) or (row is not None and not np.isfinite(row).all()):
        raise InvalidInput("its own query and the vector of it do not belong together")
    _check_ids([own.after_arm or 0])


def _check_outcome(event: Event, body: OutcomeEvent, state: State, past: Past) -> None:
    if event.decision_id is None:
        raise InvalidInput("it names no decision")
    decision = past.decision(event.decision_id)
    lessons = state.lessons(body, decision)
    for policy, example in lessons:
        if isinstance(example, Replaced):
            _check_features(example.choice.features.tolist(), policy)
        else:  # a step has the features of its time, which may be fewer
            policy.check_observation(example.failures, example.success)
            _check_size(() if example.success is None else example.success.features.tolist())
    for policy in {
        id(policy): policy for policy, example in lessons if _may_fail(example)
    }.values():
        taught = [example for learner, example in lessons if learner is policy]
        _try_on_a_copy(taught, policy, decision.time)


def _may_fail(example: Example) -> bool:
    """Whether learning it may leave no valid model: something is taken back."""
    if isinstance(example, Observed):
        return example.sign < 0
    return example.old is not None and example.new is None


def _check_features(features: Sequence[float], policy: Policy) -> None:
    if policy.dimension and len(features) != policy.dimension:
        raise InvalidInput(f"it has {len(features)} features, and the model has {policy.dimension}")
    _check_size(features)


def _check_size(features: Sequence[float]) -> None:
    if not all(abs(value) <= _LARGEST for value in features):  # false for NaN too
        raise InvalidInput(f"it has features that are not numbers of at most {_LARGEST:g}")


def _try_on_a_copy(taught: Sequence[Example], policy: Policy, at: float) -> None:
    """Taking examples back may leave no valid model, if they were never learnt."""
    copy = type(policy).from_state(policy.state())
    for example in taught:
        example.learn(copy, at)
    arrays = copy.state()
    if not all(np.isfinite(array).all() for array in arrays.values() if array.dtype.kind == "f"):
        raise InvalidInput("the model would no longer be finite")
    if "A" in arrays:
        np.linalg.cholesky(arrays["A"])  # raises LinAlgError, a ValueError


def _check_model(event: Event, body: ModelEvent, state: State, past: Past) -> None:
    for continues in (body.continues, *(one.continues for one in body.beside)):
        if continues is not None and continues != state.model:
            raise InvalidInput(
                f"it continues the model of position {continues}, and the model of position "
                f"{state.model} is in force"
            )
    begin(event, body, state.branches(), past)  # changes nothing that it is given
