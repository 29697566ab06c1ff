"""The registry: every selection, schedule and policy by name, with its default parameters.

A name means the same algorithm everywhere: in the library, in replay and its result files, in the
service, in the help and in the documentation. A plain name uses these defaults; a variant overrides
them: ``lin-ucb@alpha=0.1``. To add a policy, write its file and add a line here.

A policy may be registered by the path of its class. Its module is imported when somebody asks for
the policy; what must be known before stands in its entry.
"""

import functools
import inspect
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from nextquery.checks import load, one_of, path_of
from nextquery.errors import InvalidInput
from nextquery.policies.baselines import MostSimilar, RandomPolicy
from nextquery.policies.feedback_ucb import FeedbackUCB
from nextquery.policies.lin_ts import LinTS
from nextquery.policies.lin_ucb import LinUCB
from nextquery.policies.policy import Policy
from nextquery.selection import (
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
    "PolicyEntry",
    "policy_named",
    "schedule_named",
    "selector_named",
]


SELECTIONS: dict[str, type[Selector]] = {
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


class PolicyEntry(NamedTuple):
    """A policy of the registry: its class, and what is known without loading that.

    Parameters
    ----------
    kind : the class, or its path as text, ``"module:Class"``, to import it only if needed.
    help : what it does, in one line: the first of the class's docstring.
    params : the default parameters of this name where they are not those of the class.
    live : whether it can learn from users, because the order of rewards does not matter to it.

    >>> POLICIES["moss"].live, POLICIES["k-failure"].live
    (True, False)
    >>> POLICIES["k-failure"].help
    'Stay with an arm until its k-th failure, then take a new one; never return.'
    """

    kind: type[Policy] | str
    help: str
    params: Mapping[str, Any] = MappingProxyType({})
    live: bool = True


_LIN_UCB = "Score = θᵀx + α √(xᵀA⁻¹x): the estimate plus a bonus for uncertainty."
_LIN_TS = "Linear Thompson sampling: draw θ̃ ~ N(θ, v² A⁻¹) and choose the arm with the largest θ̃ᵀx."
_MOST_SIMILAR = "Choose uniformly among the `top` most preferred candidates."

MANY_ARMED: dict[str, PolicyEntry] = {
    "ucb1": PolicyEntry(
        "nextquery.research.many_armed.index:UCB1",
        "Play every arm once, then the largest x̄ + √(2 ln n / s), with n the plays so far.",
    ),
    "epsilon-greedy": PolicyEntry(
        "nextquery.research.many_armed.classical:EpsilonGreedy",
        "With probability ε any arm, else the one with the best mean; unplayed arms come first.",
    ),
    "thompson": PolicyEntry(
        "nextquery.research.many_armed.classical:Thompson",
        "Draw a mean for each arm from Beta(1 + S, 1 + F), and play the arm with the largest draw.",
    ),
    "moss": PolicyEntry(
        "nextquery.research.many_armed.index:MOSS",
        "Play the largest x̄ + √(max(ln(T / (K s)), 0) / s).",
    ),
    "moss-anytime": PolicyEntry(
        "nextquery.research.many_armed.index:MossAnytime",
        "Play the largest x̄ + √((1 + α)/2 · max(ln(n / (K s)), 0) / s), n plays so far.",
    ),
    "ucb-f": PolicyEntry(
        "nextquery.research.many_armed.subsets:UCBF",
        "Draw ⌈T^(β/2)⌉ arms (β < 1) or ⌈T^(β/(β+1))⌉ (β ≥ 1), and run UCB-V on them.",
    ),
    "ucb-air": PolicyEntry(
        "nextquery.research.many_armed.subsets:UCBAIR",
        "In round t draw a new arm if there are fewer than t^(β/2) (β < 1) or t^(β/(β+1)), "
        "else UCB-V.",
    ),
    "subsampled-greedy": PolicyEntry(
        "nextquery.research.many_armed.subsets:SubsampledGreedy",
        "Draw T^(β/2) arms (rewards of 0 and 1) or T^((β+1)/3) (Gaussian noise); "
        "play the best mean.",
    ),
    "subsampled-ucb": PolicyEntry(
        "nextquery.research.many_armed.subsets:SubsampledUCB",
        "Draw T^(β/2) arms and play the largest x̄ + σ √(2 ln(1 + t ln² t) / s).",
    ),
    "quantile-moss": PolicyEntry(
        "nextquery.research.many_armed.subsets:QuantileMoss",
        "Epoch l = 1, 2, … has 2^l rounds of MOSS on the first ⌈2^(αl)⌉ arms drawn, at least two.",
    ),
    "moss-plus-plus": PolicyEntry(
        "nextquery.research.many_armed.subsets:MossPlusPlus",
        "In iteration i, MOSS over min(2^(p+2−i), n) arms drawn anew and the i − 1 virtual arms.",
        live=False,
    ),
    "empirical-moss-plus-plus": PolicyEntry(
        "nextquery.research.many_armed.subsets:EmpiricalMossPlusPlus",
        "As MOSS++, but the next iteration has the arms with the best means so far, half as many.",
        live=False,
    ),
    "parallel-moss": PolicyEntry(
        "nextquery.research.many_armed.subsets:ParallelMoss",
        "p = ⌈ln T⌉ subroutines; number i is MOSS on ⌈T^(i/p) ln √T⌉ arms of its own.",
        live=False,
    ),
    "k-failure": PolicyEntry(
        "nextquery.research.many_armed.failures:KFailure",
        "Stay with an arm until its k-th failure, then take a new one; never return.",
        live=False,
    ),
    "m-run": PolicyEntry(
        "nextquery.research.many_armed.failures:MRun",
        "Leave arms at their first failure until one has a run of m = ⌈√T⌉ successes: it stays.",
        live=False,
    ),
    "non-recalling-m-run": PolicyEntry(
        "nextquery.research.many_armed.failures:NonRecallingMRun",
        "Leave arms at their first failure until one has a run of m = ⌈√T⌉ successes: it stays.",
        live=False,
    ),
    "m-learning": PolicyEntry(
        "nextquery.research.many_armed.failures:MLearning",
        "Leave arms at their first failure for m = ⌈√T ln T⌉ rounds; then the best arm stays.",
        live=False,
    ),
    "two-target": PolicyEntry(
        "nextquery.research.many_armed.failures:TwoTarget",
        "Keep an arm with l1 successes before its first failure and l2 before its m-th, for ever.",
        live=False,
    ),
    "adaptive-zooming": PolicyEntry(
        "nextquery.research.many_armed.structured:AdaptiveZooming",
        "Play the active arm with the largest x̄ + 2 r, where r shrinks as the arm is played.",
        live=False,
    ),
    "ckl-ucb": PolicyEntry(
        "nextquery.research.many_armed.structured:CKLUCB",
        "Play the least played arm that could still be as good as the leader's index.",
    ),
    "oslb": PolicyEntry(
        "nextquery.research.many_armed.structured:OSLB",
        "Play arms up to c_k ln t times, where c solves the linear programme at the means so far.",
    ),
}
"""Bandits for very many arms, by the paths of their classes."""

POLICIES: dict[str, PolicyEntry] = {
    "lin-ucb-memory": PolicyEntry(LinUCB, _LIN_UCB, {"alpha": 0.1, "features": "memory"}),
    "lin-ucb": PolicyEntry(LinUCB, _LIN_UCB, {"model": "disjoint"}),
    "lin-ucb-published": PolicyEntry(LinUCB, _LIN_UCB, {"model": "disjoint", "prior": None}),
    "lin-ucb-shared": PolicyEntry(LinUCB, _LIN_UCB),
    "lin-ucb-feedback": PolicyEntry(
        FeedbackUCB, "Disjoint LinUCB with ties broken by relevance feedback (after Rocchio 1971)."
    ),
    "lin-ts": PolicyEntry(LinTS, _LIN_TS, {"features": "arm", "draws": 1}),
    "lin-ts-interaction": PolicyEntry(LinTS, _LIN_TS),
    "most-similar": PolicyEntry(MostSimilar, _MOST_SIMILAR),
    "most-similar-first": PolicyEntry(MostSimilar, _MOST_SIMILAR, {"top": 1}),
    "random": PolicyEntry(RandomPolicy, "Choose any candidate uniformly."),
    **MANY_ARMED,
}

SERVED = "lin-ucb-memory"
"""The default policy of the service."""

LIVE = tuple(name for name, entry in POLICIES.items() if entry.live)
"""The policies that can learn from users."""


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
    kind = policy_class(name)
    own = kind(**POLICIES[plain].params).get_params()
    return kind(**{**own, **known_params(name, {**params, **given}, own)})


def policy_class(name: str) -> type[Policy]:
    """Return the class of a policy, by its name or the name of a variant.

    >>> policy_class("lin-ucb@alpha=0.1").__name__
    'LinUCB'
    """
    kind = POLICIES[one_of(split(name)[0], "policy", POLICIES)].kind
    return load(kind) if isinstance(kind, str) else kind


def name_of(policy: Policy) -> str | None:
    """Return the name whose class and default parameters a policy has; the most specific of them.

    >>> name_of(LinUCB(model="disjoint", alpha=0.1)), name_of(LinUCB())
    ('lin-ucb', 'lin-ucb-shared')
    """
    kinds, own = (type(policy), path_of(type(policy))), policy.get_params().items()
    fitting = {
        name: len(entry.params)
        for name, entry in POLICIES.items()
        if entry.kind in kinds and entry.params.items() <= own
    }
    return max(fitting, key=fitting.__getitem__, default=None)


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
            "summary": POLICIES[name].help,
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
    """Whether the policy of this name sees memory features.

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
