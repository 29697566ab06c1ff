"""nextquery: recommends the next query, learning from a query log and from clicks."""

from nextquery import encode, errors, optimize, preference, utility
from nextquery.arms import ArmPool
from nextquery.client import AsyncClient, Client
from nextquery.memory import Memory
from nextquery.outcomes import Learning
from nextquery.personal import Personal
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
from nextquery.rivals import Rival, Step
from nextquery.rivals.names import rival_named as rival
from nextquery.select import (
    Bump,
    Candidates,
    LambertPower,
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
    "LambertPower",
    "Learning",
    "LinTS",
    "LinUCB",
    "MaxUtility",
    "Memory",
    "MostSimilar",
    "Personal",
    "Policy",
    "Power",
    "PreferenceSample",
    "PreferenceThreshold",
    "RandomPolicy",
    "RandomSelection",
    "Recommender",
    "Rival",
    "Selector",
    "Session",
    "Sessions",
    "Step",
    "Zooming",
    "encode",
    "errors",
    "optimize",
    "policy",
    "preference",
    "rival",
    "utility",
]
