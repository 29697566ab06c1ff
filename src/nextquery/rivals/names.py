"""The registry of rivals, by the names used in the library, in replay and in the documentation.

A variant sets parameters: ``stan@session_days=365``. To add a rival, write its file and add a line
here. No name is also the name of a policy.
"""

from typing import Any

from nextquery.arms import ArmPool
from nextquery.checks import load, one_of
from nextquery.memory import SessionMemory
from nextquery.policies.registry import known_params, split
from nextquery.rivals.association_rules import AssociationRules
from nextquery.rivals.base import Rival
from nextquery.rivals.n_gram import NGram
from nextquery.rivals.popularity import Popularity
from nextquery.rivals.s_knn import SKnn
from nextquery.rivals.sequential_rules import SequentialRules
from nextquery.rivals.similarity_support import SimilarityAndSupport
from nextquery.rivals.stan import Stan
from nextquery.rivals.variable_markov import VariableMarkov
from nextquery.rivals.vs_knn import VsKnn
from nextquery.rivals.vstan import VStan
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
    "gru4rec": "nextquery.rivals.neural.next_item:Gru4Rec",
    "sasrec": "nextquery.rivals.neural.next_item:SasRec",
    "rin": "nextquery.rivals.neural.rin:Rin",
    "acg": "nextquery.rivals.neural.acg:Acg",
    "cfan": "nextquery.rivals.neural.cfan:Cfan",
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

    >>> from nextquery.rivals import Step
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
