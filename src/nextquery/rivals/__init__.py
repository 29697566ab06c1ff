"""Recommenders that are not bandits: they count earlier sessions and learn nothing from clicks."""

from nextquery.rivals.association_rules import AssociationRules
from nextquery.rivals.base import Rival, Step
from nextquery.rivals.n_gram import NGram
from nextquery.rivals.popularity import Popularity
from nextquery.rivals.s_knn import SKnn
from nextquery.rivals.sequential_rules import SequentialRules
from nextquery.rivals.similarity_support import SimilarityAndSupport
from nextquery.rivals.stan import Stan
from nextquery.rivals.variable_markov import VariableMarkov
from nextquery.rivals.vs_knn import VsKnn
from nextquery.rivals.vstan import VStan

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
