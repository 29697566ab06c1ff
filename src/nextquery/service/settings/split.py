"""Which policies share the sessions: those of an experiment, and the control that is watched."""

from nextquery.errors import InvalidInput
from nextquery.experiments.assignment import Shares, parse_shares, with_control
from nextquery.policies.registry import live_policy

CONTROL = "most-similar-first"
"""What a served model is compared with, and what answers if it is worse."""


def split_of(
    policy: str, experiment: str = "", control_share: float = 0.0, interleave: str = ""
) -> Shares:
    """Return the share of the sessions that each policy gets, the main one first.

    The control gets a share only if a policy learns: nothing else can go wrong later. A policy that
    is interleaved has no sessions of its own.

    >>> split_of("lin-ucb-memory"), split_of("random", control_share=0.05)
    ({'lin-ucb-memory': 1.0}, {'random': 1.0})
    >>> split_of("lin-ucb-shared", "random:0.2,lin-ucb-shared:0.8", 0.5)
    {'lin-ucb-shared': 0.4, 'random': 0.1, 'most-similar-first': 0.5}
    """
    if interleave and (experiment or interleave == policy):
        with_what = f"experiment = {experiment}" if experiment else f"policy = {policy}"
        raise InvalidInput(
            f"interleave = {interleave} does not go with {with_what}. Interleave two policies, or "
            "divide the sessions between them."
        )
    shares = parse_shares(experiment) if experiment else {policy: 1.0}
    if interleave:
        shares[interleave] = 0.0
    if policy not in shares:
        raise InvalidInput(
            f"experiment = {experiment} does not have policy = {policy}, the one that the others "
            f"are compared with. Set policy to one of: {', '.join(shares)}."
        )
    learns = control_share > 0 and [name for name in shares if live_policy(name).learns]
    ordered = {policy: shares.pop(policy), **shares}
    return with_control(ordered, CONTROL, control_share if learns else 0.0)
