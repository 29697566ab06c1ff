"""The registry: every selection, schedule and policy by name, with its default parameters.

A name means the same algorithm everywhere: in the library, in replay and its result files, in the
service, in the help and in the documentation. A plain name uses these defaults; a variant overrides
them: ``lin-ucb@alpha=0.1``. To add a policy, write its file and add a line here.
"""

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from nextquery.checks import one_of
from nextquery.errors import InvalidInput
from nextquery.policies.base import Policy
from nextquery.policies.feedback import FeedbackUCB
from nextquery.policies.lin_ts import LinTS
from nextquery.policies.lin_ucb import LinUCB
from nextquery.policies.many_armed import MANY_ARMED
from nextquery.policies.simple import MostSimilar, RandomPolicy
from nextquery.select import (
    Bump,
    LambertPower,
    MaxUtility,
    Power,
    PreferenceSample,
    PreferenceThreshold,
    RandomSelection,
    Schedule,
    Selector,
    Zooming,
)

__all__ = [
    "POLICIES",
    "SCHEDULES",
    "SELECTIONS",
    "policy_named",
    "schedule_named",
    "selector_named",
]

SELECTIONS: dict[str, Callable[..., Selector]] = {
    "max-utility": MaxUtility,
    "random": RandomSelection,
    "zooming": Zooming,
    "threshold": PreferenceThreshold,
    "sampled": PreferenceSample,
}

SCHEDULES: dict[str, Callable[..., Schedule]] = {
    "bump": Bump,
    "power": Power,
    "lambert": LambertPower,
}

POLICIES: dict[str, Callable[[], Policy]] = {
    "lin-ucb-memory": lambda: LinUCB(alpha=0.1, features="memory"),
    "lin-ucb": lambda: LinUCB(model="disjoint"),
    "lin-ucb-published": lambda: LinUCB(model="disjoint", prior=None),
    "lin-ucb-shared": LinUCB,
    "lin-ucb-feedback": FeedbackUCB,
    "lin-ts": lambda: LinTS(features="arm", draws=1),
    "lin-ts-interaction": LinTS,
    "most-similar": MostSimilar,
    "most-similar-first": lambda: MostSimilar(top=1),
    "random": RandomPolicy,
    **MANY_ARMED,
}

SERVED = "lin-ucb-memory"
"""The default policy of the service."""

LIVE = tuple(name for name, kind in POLICIES.items() if not kind().order_matters)
"""The policies that can learn from users, because the order of rewards does not matter to them."""


def selector_named(
    name: str, *, k: int = 250, epsilon: float = 0.5, reading: str = "example"
) -> Selector:
    """Create a selector by name, with size `k` (if it has one) and preference options.

    >>> selector_named("zooming@threshold=0.6").get_params()["threshold"]
    0.6
    """
    plain, given = split(name)
    kind = SELECTIONS[one_of(plain, "selection", SELECTIONS)]
    common: dict[str, Any] = {"epsilon": epsilon, "reading": reading}
    if has_size(name):
        common["k"] = k
    own = kind(**common).get_params()
    variant = {key: value for key, value in own.items() if key not in common}
    example = "max-utility@optimizer=greedi" if plain == "max-utility" else "zooming@threshold=0.6"
    return kind(**known_params(name, given, variant, example), **common)


def has_size(name: str) -> bool:
    """Whether a selection takes k (otherwise it selects by a threshold)."""
    return SELECTIONS[one_of(split(name)[0], "selection", SELECTIONS)]().k is not None


def schedule_named(name: str, *, k: int) -> Schedule | None:
    """Create a schedule by name; None for ``none``.

    Unless a variant says otherwise, ``bump`` peaks at the selection's `k`, and β is 1.

    >>> schedule_named("power@beta=2", k=250).get_params()["exponent"]  # anytime: β/(β+1)
    0.6666666666666666
    >>> round(schedule_named("bump", k=250).alpha, 3), schedule_named("none", k=250)
    (6.422, None)
    """
    plain, given = split(name)
    one_of(plain, "schedule", ("none", *SCHEDULES))
    if plain == "none":
        known_params(name, given, {})
        return None
    kind = SCHEDULES[plain]
    own = dict.fromkeys(inspect.signature(kind).parameters)
    known_params(name, given, own, example="power@beta=1,start=5")
    usual: dict[str, Any] = {"beta": 1.0} if "beta" in own else {"peak": k}
    return kind(**given if "alpha" in given else {**usual, **given})


def policy_named(name: str, **params: Any) -> Policy:
    """Create a policy by name. What a variant sets overrides `params`.

    >>> params = policy_named("lin-ucb@alpha=0.1", seed=3).get_params()
    >>> params["model"], params["alpha"], params["seed"]
    ('disjoint', 0.1, 3)
    """
    plain, given = split(name)
    policy = POLICIES[one_of(plain, "policy", POLICIES)]()
    own = policy.get_params()
    return type(policy)(**{**own, **known_params(name, {**params, **given}, own)})


def live_policy(name: str, **params: Any) -> Policy:
    """Create a policy that can learn from users: from late feedback, and from corrections.

    >>> live_policy("k-failure")
    Traceback (most recent call last):
    nextquery.errors.InvalidInput: 'k-failure' cannot learn from users: its state depends on the
    order of rewards (runs of successes and the first failures of an arm decide when it is left),
    and clicks come late, in any order, and correct each other. Use it in the library or in anchored
    experiments; `nextquery algorithms` lists the policies for which order does not matter.
    """
    policy = policy_named(name, **params)
    if policy.order_matters:
        raise InvalidInput(
            f"{name!r} cannot learn from users: its state depends on the order of rewards "
            f"({policy.order_matters}), and clicks come late, in any order, and correct each "
            "other. Use it in the library or in anchored experiments; `nextquery algorithms` lists "
            "the policies for which order does not matter."
        )
    return policy


def described() -> list[dict[str, Any]]:
    """Return what every registered policy assumes, its parameters and its reference.

    >>> next(row for row in described() if row["name"] == "moss")["parameters"]
    {'horizon': 1000, 'seed': 0}
    """
    rows = []
    for name in POLICIES:
        policy = policy_named(name)
        about = {
            "name": name,
            "class": type(policy).__name__,
            "summary": (type(policy).__doc__ or "").partition("\n")[0],
            "assumptions": policy.assumptions,
            "parameters": policy.get_params(),
            "regret": policy.regret,
            "order_matters": policy.order_matters,
            "learns_from_users": not policy.order_matters,
            "reference": policy.reference,
        }
        rows.append(about)
    return rows


@functools.cache
def has_memory(name: str) -> bool:
    """Whether the policy of this name sees memory features; a name of an older version does not.

    >>> has_memory("lin-ucb-memory@alpha=0.1"), has_memory("random"), has_memory("of long ago")
    (True, False, False)
    """
    return split(name)[0] in POLICIES and policy_named(name).needs_memory


def with_alpha(name: str, alpha: float) -> str:
    """Return the variant of a policy with α; the name unchanged if α is its default or unused.

    >>> with_alpha("lin-ucb", 0.3), with_alpha("lin-ucb", 0.1), with_alpha("random", 0.1)
    ('lin-ucb', 'lin-ucb@alpha=0.1', 'random')
    """
    own = policy_named(name).get_params().get("alpha")
    if own is None or own == alpha:
        return name
    plain, given = split(name)
    short = f"{alpha:g}"
    return joined(plain, {**given, "alpha": short if float(short) == alpha else repr(alpha)})


def split(name: str) -> tuple[str, dict[str, Any]]:
    """Split a name into the plain name and what the variant sets.

    >>> split("lin-ucb@alpha=0.1,prior=none"), split("random")
    (('lin-ucb', {'alpha': 0.1, 'prior': None}), ('random', {}))
    """
    if not isinstance(name, str):
        raise InvalidInput(f"a name must be a string like 'lin-ucb@alpha=0.1'; received {name!r}.")
    plain, _, variant = name.partition("@")
    given = dict(part.partition("=")[::2] for part in variant.split(",") if part)
    return plain, {key: _value(text) for key, text in given.items()}


def joined(plain: str, given: Mapping[str, Any]) -> str:
    """Return the name of a variant: the inverse of `split`.

    >>> joined("lin-ucb", {"alpha": 0.1}), joined("random", {})
    ('lin-ucb@alpha=0.1', 'random')
    """
    params = [f"{key}={'none' if value is None else value}" for key, value in given.items()]
    return "@".join([plain, ",".join(params)] if params else [plain])


def known_params(
    name: str, given: dict[str, Any], params: dict[str, Any], example: str = "lin-ucb@alpha=0.1"
) -> dict[str, Any]:
    """Return what a variant sets, or raise an error if that is not among its own `params`."""
    unknown = [key for key in given if key not in params]
    if unknown and not params:
        plain = split(name)[0]
        raise InvalidInput(f"{name!r}: {plain} has no variants. Use {plain!r}.")
    if unknown:
        raise InvalidInput(
            f"{name!r}: there is no parameter {unknown[0]!r}; a variant may set "
            f"{', '.join(sorted(params))}, like {example!r}."
        )
    return given


def _value(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return None if text == "none" else text
