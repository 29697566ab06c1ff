"""Recommenders that are not bandits: they count earlier sessions and learn nothing from clicks."""

from nextquery.research.rivals.counting import (
    AssociationRules,
    NGram,
    Popularity,
    SequentialRules,
    SimilarityAndSupport,
    VariableMarkov,
)
from nextquery.research.rivals.neighbours import SKnn, Stan, VsKnn, VStan
from nextquery.research.rivals.rival import Rival, Step

__all__ = [
    "AssociationRules",
    "NGram",
    "Popularity",
    "Rival",
    "SKnn",
    "SequentialRules",
    "SimilarityAndSupport",
    "Stan",
    "Step",
    "VStan",
    "VariableMarkov",
    "VsKnn",
]
