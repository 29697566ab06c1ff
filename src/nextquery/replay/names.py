"""The names that results use, and the selectors and policies they stand for.

A plain name means default parameters; a variant says what differs: ``lin-ucb@alpha=0.1``.
"""

from collections.abc import Callable
from typing import Any

from nextquery.checks import one_of
from nextquery.errors import InvalidInput
from nextquery.policies import FeedbackUCB, LinTS, LinUCB, MostSimilar, Policy, RandomPolicy
from nextquery.select import (
    MaxUtility,
    PreferenceSample,
    PreferenceThreshold,
    RandomSelection,
    Selector,
    Zooming,
)

SELECTIONS: dict[str, type[Selector]] = {
    "max-utility": MaxUtility,
    "random": RandomSelection,
    "zooming": Zooming,
    "threshold": PreferenceThreshold,
    "sampled": PreferenceSample,
}

POLICIES: dict[str, Callable[[], Policy]] = {
    "lin-ucb-published": lambda: LinUCB(alpha=0.3, ridge=1.0, model="disjoint", prior=None),
    "lin-ucb": lambda: LinUCB(alpha=0.3, ridge=1.0, model="disjoint", prior="preference"),
    "lin-ucb-feedback": FeedbackUCB,
    "lin-ucb-shared": lambda: LinUCB(model="shared", features="interaction", prior="preference"),
    "lin-ts": lambda: LinTS(features="arm", draws=1),
    "most-similar": MostSimilar,
    "random": RandomPolicy,
}


def selector_named(
    name: str, *, k: int = 250, epsilon: float = 0.5, reading: str = "example"
) -> Selector:
    """A selector by its name in the results; a size, where it has one, and its preferences.

    >>> selector_named("zooming@threshold=0.6").get_params()["threshold"]
    0.6
    """
    plain, given = _split(name)
    kind = SELECTIONS[one_of(plain, "selection", SELECTIONS)]
    common: dict[str, Any] = {"epsilon": epsilon, "reading": reading}
    if has_size(name):
        common["k"] = k
    return kind(**_known(name, given, kind(**common).get_params()), **common)


def has_size(name: str) -> bool:
    """Whether a selection takes k (else it selects by a threshold)."""
    return SELECTIONS[one_of(_split(name)[0], "selection", SELECTIONS)]().k is not None


def policy_named(name: str) -> Policy:
    """A new policy by its name in the results.

    >>> policy_named("lin-ucb@alpha=0.1").get_params()["alpha"]
    0.1
    """
    plain, given = _split(name)
    policy = POLICIES[one_of(plain, "policy", POLICIES)]()
    params = policy.get_params()
    return type(policy)(**{**params, **_known(name, given, params)})


def with_alpha(name: str, alpha: float) -> str:
    """The variant of a policy that explores with α, if it has an α; plain where that is its own.

    >>> with_alpha("lin-ucb", 0.3), with_alpha("lin-ucb", 0.1), with_alpha("random", 0.1)
    ('lin-ucb', 'lin-ucb@alpha=0.1', 'random')
    """
    own = policy_named(name).get_params().get("alpha")
    if own is None or own == alpha:
        return name
    return f"{name}{',' if '@' in name else '@'}alpha={alpha:g}"


def _split(name: str) -> tuple[str, dict[str, Any]]:
    plain, _, variant = name.partition("@")
    given = dict(part.partition("=")[::2] for part in variant.split(",") if part)
    return plain, {key: _value(text) for key, text in given.items()}


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
