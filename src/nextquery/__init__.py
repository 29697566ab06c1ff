"""nextquery: recommends the next query, learning from a query log and from clicks."""

from nextquery import encode, errors, optimize, preference, utility
from nextquery.arms import ArmPool
from nextquery.client import AsyncClient, Client
from nextquery.memory import Memory
from nextquery.outcomes import Learning
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
from nextquery.policies.names import policy_named as policy
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
from nextquery.sessions import Sessions

__all__ = [
    "ArmPool",
    "AsyncClient",
    "Bump",
    "Candidates",
    "Choice",
    "Client",
    "Context",
    "FeedbackUCB",
    "Learning",
    "LinTS",
    "LinUCB",
    "MaxUtility",
    "Memory",
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
    "Sessions",
    "Zooming",
    "encode",
    "errors",
    "optimize",
    "policy",
    "preference",
    "utility",
]
