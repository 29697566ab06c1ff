"""The registry: every selection and policy by name, with its default parameters.

A name means the same algorithm everywhere: in the library, in replay and its result files, in the
service, in the help and in the documentation. A plain name uses these defaults; a variant overrides
them: ``lin-ucb@alpha=0.1``. To add a policy, write its file and add a line here.
"""

from collections.abc import Callable, Mapping
from typing import Any

from nextquery.checks import one_of
from nextquery.errors import InvalidInput
from nextquery.policies.base import Policy
from nextquery.policies.feedback import FeedbackUCB
from nextquery.policies.lin_ts import LinTS
from nextquery.policies.lin_ucb import LinUCB
from nextquery.policies.simple import MostSimilar, RandomPolicy
from nextquery.select import (
    MaxUtility,
    PreferenceSample,
    PreferenceThreshold,
    RandomSelection,
    Selector,
    Zooming,
)

SELECTIONS: dict[str, Callable[..., Selector]] = {
    "max-utility": MaxUtility,
    "random": RandomSelection,
    "zooming": Zooming,
    "threshold": PreferenceThreshold,
    "sampled": PreferenceSample,
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
}

SERVED = "lin-ucb-memory"
"""The default policy of the service."""


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
    return kind(**_known(name, given, kind(**common).get_params()), **common)


def has_size(name: str) -> bool:
    """Whether a selection takes k (otherwise it selects by a threshold)."""
    return SELECTIONS[one_of(split(name)[0], "selection", SELECTIONS)]().k is not None


def policy_named(name: str, **params: Any) -> Policy:
    """Create a policy by name. What a variant sets overrides `params`.

    >>> params = policy_named("lin-ucb@alpha=0.1", seed=3).get_params()
    >>> params["model"], params["alpha"], params["seed"]
    ('disjoint', 0.1, 3)
    """
    plain, given = split(name)
    policy = POLICIES[one_of(plain, "policy", POLICIES)]()
    own = policy.get_params()
    return type(policy)(**{**own, **_known(name, {**params, **given}, own)})


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


def _value(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return None if text == "none" else text


def _known(name: str, given: dict[str, Any], params: dict[str, Any]) -> dict[str, Any]:
    unknown = [key for key in given if key not in params]
    if unknown:
        raise InvalidInput(
            f"{name!r}: there is no parameter {unknown[0]!r}; a variant may set "
            f"{', '.join(sorted(params))}, like 'lin-ucb@alpha=0.1'."
        )
    return given
