"""The registry of rivals, by the names used in the library, in replay and in the documentation.

A variant sets parameters: ``stan@session_days=365``. To add a rival, write its file and add a line
here. No name is also the name of a policy.
"""

from typing import Any

from nextquery.arms import ArmPool
from nextquery.checks import load, one_of
from nextquery.memory import SessionMemory
from nextquery.policies.registry import known_params, split
from nextquery.research.rivals.counting import (
    AssociationRules,
    NGram,
    Popularity,
    SequentialRules,
    SimilarityAndSupport,
    VariableMarkov,
)
from nextquery.research.rivals.neighbours import SKnn, Stan, VsKnn, VStan
from nextquery.research.rivals.rival import Rival
from nextquery.sessions import AnySessions, Sessions

__all__ = ["RIVALS", "TRAINED", "rival_named"]


RIVALS: dict[str, type[Rival]] = {
    "popularity": Popularity,
    "similarity-support": SimilarityAndSupport,
    "n-gram": NGram,
    "vmm": VariableMarkov,
    "ar": AssociationRules,
    "sr": SequentialRules,
    "s-knn": SKnn,
    "vs-knn": VsKnn,
    "stan": Stan,
    "vstan": VStan,
}

TRAINED: dict[str, str] = {
    "gru4rec": "nextquery.research.neural.serve:Gru4Rec",
    "sasrec": "nextquery.research.neural.serve:SasRec",
    "rin": "nextquery.research.neural.serve:Rin",
    "acg": "nextquery.research.neural.serve:Acg",
    "cfan": "nextquery.research.neural.serve:Cfan",
}
"""Rivals that need a trained model: ``gru4rec@model=FOLDER``. They are imported on first use."""


def rival_named(
    name: str,
    memory: SessionMemory | AnySessions,
    *,
    pool: ArmPool | None = None,
    **params: Any,
) -> Rival:
    """Create a rival by name, over a memory or sessions. What a variant sets overrides `params`.

    `pool` has the arms, for rivals that rank by texts or vectors (`Rival.needs_pool`).

    >>> from nextquery.research.rivals import Step
    >>> rival = rival_named("sr@steps=1", [[0, 1, 2], [0, 2]])
    >>> rival.rank(Step(before=len(rival.memory), history=[0]), 5).tolist()
    [1, 2]
    """
    plain, given = split(name)
    kind = rival_class(plain)
    example = "gru4rec@model=FOLDER" if plain in TRAINED else "stan@session_days=365"
    params = known_params(name, {**params, **given}, kind.parameters(), example)
    if not isinstance(memory, SessionMemory):
        memory = SessionMemory(Sessions.of(memory))
    more = (pool,) if kind.needs_pool else ()
    return kind(memory, *more, **params)


def rival_class(name: str) -> type[Rival]:
    """Return the class of a rival, by its name or the name of a variant."""
    plain = one_of(split(name)[0], "rival", (*RIVALS, *TRAINED))
    kind: type[Rival] = RIVALS[plain] if plain in RIVALS else load(TRAINED[plain])
    return kind
