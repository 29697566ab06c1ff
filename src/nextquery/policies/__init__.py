"""Policies choose which candidates to recommend."""

from nextquery.policies.baselines import MostSimilar, RandomPolicy
from nextquery.policies.feedback_ucb import FeedbackUCB
from nextquery.policies.lin_ts import LinTS
from nextquery.policies.lin_ucb import LinUCB
from nextquery.policies.packed import Choice, Context
from nextquery.policies.policy import Policy

__all__ = [
    "Choice",
    "Context",
    "FeedbackUCB",
    "LinTS",
    "LinUCB",
    "MostSimilar",
    "Policy",
    "RandomPolicy",
]
