"""The policies of a model event: each with its own model, and with the live learning it keeps."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from nextquery.learning import Fitted
from nextquery.policies import Policy
from nextquery.service.log.events import BesideModel, Event, ModelEvent
from nextquery.service.model.arrays import Arrays, from_text, unpacked, within
from nextquery.service.model.model_events import (
    TAUGHT,
    beside,
    besides,
    policies_of,
    restored,
)
from nextquery.service.model.past import Past


@dataclass
class Branch:
    """A policy, its calibration, and the models whose decisions teach it.

    `lineage` has the positions of these models, each with the name that the policy had in it; an
    empty name stands for every decision of that model, which had one policy.
    """

    policy: Policy
    calibration: Fitted = field(default_factory=dict)
    lineage: dict[int, str] = field(default_factory=dict)

    def learns_from(self, model: int, policy: str) -> bool:
        """Whether a decision of this policy of this model teaches it."""
        return self.lineage.get(model, None) in ("", policy)


class Begun(NamedTuple):
    """A model event without its arrays, its main policy, and those beside it by name."""

    event: ModelEvent
    main: Branch
    beside: dict[str, Branch]


def begin(at: Event, body: ModelEvent, earlier: Mapping[str, Branch], past: Past) -> Begun:
    """Return the policies of a model event, each with what it keeps of `earlier` ones.

    `earlier` are the policies in force, the main one first.
    """
    arrays = unpacked(from_text(body.arrays))
    event, policy = restored(body, arrays)
    if taught := within(arrays, TAUGHT):
        policy.take_over(type(policy).from_state(taught), type(policy)(**policy.get_params()))
    name = event.policy if event.beside else ""
    main = Branch(policy, within(arrays, "calibration"))
    if body.continues is not None:
        source = body.continued or next(iter(earlier))
        _go_on(main, earlier[source], source, body.continues, at.time, past)
    main.lineage[at.position] = name
    others = _with_calibration(event, besides(body, arrays), arrays)
    for one in event.beside:
        branch = others[one.policy]
        if one.continues is not None:
            source = one.policy
            _go_on(branch, earlier[source], source, one.continues, at.time, past)
        branch.lineage[at.position] = one.policy
    return Begun(event, main, others)


def _go_on(branch: Branch, source: Branch, name: str, model: int, time: float, past: Past) -> None:
    """Let a policy keep what another one, called `name` in an earlier model, has learnt live."""
    known = policies_of(past.model(model))
    base = known.get(name) or next(iter(known.values()))
    branch.policy.move_to(time)  # what was learnt live is as new as this event
    branch.policy.take_over(source.policy, base)
    branch.lineage = dict(source.lineage)


def restored_besides(
    event: ModelEvent, arrays: Arrays, lineages: Mapping[str, Mapping[str, str]]
) -> dict[str, Branch]:
    """Return the policies beside the main one from a snapshot."""
    found = _with_calibration(event, besides(event, arrays), arrays)
    for name, lineage in lineages.items():
        found[name].lineage = {int(at): then for at, then in lineage.items()}
    return found


def _with_calibration(
    event: ModelEvent, policies: Mapping[str, Policy], arrays: Arrays
) -> dict[str, Branch]:
    return {
        one.policy: Branch(
            policies[one.policy], within(arrays, f"{beside(number)}/calibration"), {}
        )
        for number, one in enumerate(event.beside)
    }


def continuing(body: ModelEvent, last: ModelEvent, position: int) -> ModelEvent:
    """Return a new model event that keeps what the policies of the one before have learnt live.

    A policy goes on under its name. The main one also goes on from the main one before, whatever
    its name, unless that goes on beside it. Both must learn from the same features.
    """
    known, new = policies_of(last), policies_of(body)
    before = next(iter(known))

    def same(name: str, source: str) -> bool:
        return source in known and known[source].learns == new[name].learns

    def kept(one: BesideModel) -> BesideModel:
        return replace(one, continues=position) if same(one.policy, one.policy) else one

    others = tuple(map(kept, body.beside))
    taken = {one.policy for one in others}
    source = body.policy if body.policy in known else before
    if source in taken or not same(body.policy, source):
        return replace(body, beside=others)
    continued = "" if source == before else source
    return replace(body, beside=others, continues=position, continued=continued)


def loses(last: ModelEvent, new: Mapping[str, Policy]) -> bool:
    """Whether what the main policy of a model has learnt ends with the policies of a new one."""
    name, policy = next(iter(policies_of(last).items()))
    main, first = next(iter(new.items()))
    goes_on = name in new and new[name].learns == policy.learns
    return not goes_on and first.learns != policy.learns and main not in policies_of(last)
