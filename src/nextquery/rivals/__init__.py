"""Recommenders that are not bandits: they count earlier sessions and learn nothing from clicks."""

from nextquery.rivals.base import Rival, Step
from nextquery.rivals.n_gram import NGram
from nextquery.rivals.popularity import Popularity
from nextquery.rivals.sequential_rules import SequentialRules
from nextquery.rivals.similarity_support import SimilarityAndSupport
from nextquery.rivals.stan import Stan
from nextquery.rivals.vs_knn import VsKnn

__all__ = [
    "NGram",
    "Popularity",
    "Rival",
    "SequentialRules",
    "SimilarityAndSupport",
    "Stan",
    "Step",
    "VsKnn",
]
