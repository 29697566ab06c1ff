"""nextquery: recommends the next query, learning from a query log and from clicks."""

from typing import TYPE_CHECKING, Any

from nextquery import encode, errors
from nextquery.arms import ArmPool
from nextquery.build.ingest import Personal
from nextquery.checks import load as _load
from nextquery.client import AsyncClient, Client
from nextquery.learning import Learning
from nextquery.memory import Memory
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
from nextquery.policies.registry import policy_named as policy
from nextquery.recommender import Recommender
from nextquery.selection import (
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
    optimize,
    preference,
    utility,
)
from nextquery.session import Session
from nextquery.sessions import Sessions

if TYPE_CHECKING:
    from nextquery.research.rivals import Rival, Step
    from nextquery.research.rivals.registry import rival_named as rival

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

_LATER = {
    "Rival": "nextquery.research.rivals:Rival",
    "Step": "nextquery.research.rivals:Step",
    "rival": "nextquery.research.rivals.registry:rival_named",
}

if not TYPE_CHECKING:  # or no wrong name would be an error

    def __getattr__(name: str) -> Any:
        """Import what only experiments need on first use."""
        if name not in _LATER:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = _load(_LATER[name])
        return globals()[name]

    def __dir__() -> list[str]:
        return sorted({*globals(), *_LATER})
