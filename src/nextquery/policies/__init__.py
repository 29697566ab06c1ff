"""Policies choose which candidates to recommend."""

from nextquery.policies.base import Choice, Context, Policy
from nextquery.policies.feedback import FeedbackUCB
from nextquery.policies.lin_ts import LinTS
from nextquery.policies.lin_ucb import LinUCB
from nextquery.policies.simple import MostSimilar, RandomPolicy

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
