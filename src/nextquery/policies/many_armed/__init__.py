"""Bandits for very many arms: each in a file of its own, all on the contract of a policy."""

from nextquery.policies.base import Policy
from nextquery.policies.many_armed.classical.epsilon_greedy import EpsilonGreedy as EpsilonGreedy
from nextquery.policies.many_armed.classical.moss import MOSS as MOSS
from nextquery.policies.many_armed.classical.moss_anytime import MossAnytime as MossAnytime
from nextquery.policies.many_armed.classical.thompson import Thompson as Thompson
from nextquery.policies.many_armed.classical.ucb1 import UCB1 as UCB1
from nextquery.policies.many_armed.failures.k_failure import KFailure as KFailure
from nextquery.policies.many_armed.failures.m_learning import MLearning as MLearning
from nextquery.policies.many_armed.failures.m_run import MRun as MRun
from nextquery.policies.many_armed.failures.non_recalling_m_run import (
    NonRecallingMRun as NonRecallingMRun,
)
from nextquery.policies.many_armed.failures.two_target import TwoTarget as TwoTarget
from nextquery.policies.many_armed.structured.adaptive_zooming import (
    AdaptiveZooming as AdaptiveZooming,
)
from nextquery.policies.many_armed.structured.ckl_ucb import CKLUCB as CKLUCB
from nextquery.policies.many_armed.structured.oslb import OSLB as OSLB
from nextquery.policies.many_armed.subsets.empirical_moss_plus_plus import (
    EmpiricalMossPlusPlus as EmpiricalMossPlusPlus,
)
from nextquery.policies.many_armed.subsets.moss_plus_plus import MossPlusPlus as MossPlusPlus
from nextquery.policies.many_armed.subsets.parallel_moss import ParallelMoss as ParallelMoss
from nextquery.policies.many_armed.subsets.quantile_moss import QuantileMoss as QuantileMoss
from nextquery.policies.many_armed.subsets.subsampled_greedy import (
    SubsampledGreedy as SubsampledGreedy,
)
from nextquery.policies.many_armed.subsets.subsampled_ucb import SubsampledUCB as SubsampledUCB
from nextquery.policies.many_armed.subsets.ucb_air import UCBAIR as UCBAIR
from nextquery.policies.many_armed.subsets.ucb_f import UCBF as UCBF

MANY_ARMED: dict[str, type[Policy]] = {
    "ucb1": UCB1,
    "epsilon-greedy": EpsilonGreedy,
    "thompson": Thompson,
    "moss": MOSS,
    "moss-anytime": MossAnytime,
    "ucb-f": UCBF,
    "ucb-air": UCBAIR,
    "subsampled-greedy": SubsampledGreedy,
    "subsampled-ucb": SubsampledUCB,
    "quantile-moss": QuantileMoss,
    "moss-plus-plus": MossPlusPlus,
    "empirical-moss-plus-plus": EmpiricalMossPlusPlus,
    "parallel-moss": ParallelMoss,
    "k-failure": KFailure,
    "m-run": MRun,
    "non-recalling-m-run": NonRecallingMRun,
    "m-learning": MLearning,
    "two-target": TwoTarget,
    "adaptive-zooming": AdaptiveZooming,
    "ckl-ucb": CKLUCB,
    "oslb": OSLB,
}
"""Their names in the registry (`nextquery.policies.names`)."""
