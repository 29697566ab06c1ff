"""nextquery: learns from a query log, and from clicks, which query to recommend next."""

from nextquery import encode, errors, optimize, preference, utility
from nextquery.arms import ArmPool
from nextquery.client import AsyncClient, Client
from nextquery.policies import (
    Choice,
    Context,
    FeedbackUCB,
    LinTS,
    LinUCB,
    MostSimilar,
    Policy,
    RandomPolicy,
)
from nextquery.recommender import Recommender
from nextquery.select import (
    Bump,
    Candidates,
    MaxUtility,
    Power,
    PreferenceSample,
    PreferenceThreshold,
    RandomSelection,
    Selector,
    Zooming,
)
from nextquery.session import Session

__all__ = [
    "ArmPool",
    "AsyncClient",
    "Bump",
    "Candidates",
    "Choice",
    "Client",
    "Context",
    "FeedbackUCB",
    "LinTS",
    "LinUCB",
    "MaxUtility",
    "MostSimilar",
    "Policy",
    "Power",
    "PreferenceSample",
    "PreferenceThreshold",
    "RandomPolicy",
    "RandomSelection",
    "Recommender",
    "Selector",
    "Session",
    "Zooming",
    "encode",
    "errors",
    "optimize",
    "preference",
    "utility",
]
