"""Bandits for very many arms: each in a file of its own, all on the contract of a policy."""

from nextquery.policies.base import Policy
from nextquery.policies.many_armed.classical.epsilon_greedy import EpsilonGreedy
from nextquery.policies.many_armed.classical.moss import MOSS
from nextquery.policies.many_armed.classical.moss_anytime import MossAnytime
from nextquery.policies.many_armed.classical.thompson import Thompson
from nextquery.policies.many_armed.classical.ucb1 import UCB1
from nextquery.policies.many_armed.failures.k_failure import KFailure
from nextquery.policies.many_armed.failures.m_learning import MLearning
from nextquery.policies.many_armed.failures.m_run import MRun
from nextquery.policies.many_armed.failures.non_recalling_m_run import NonRecallingMRun
from nextquery.policies.many_armed.failures.two_target import TwoTarget
from nextquery.policies.many_armed.structured.adaptive_zooming import AdaptiveZooming
from nextquery.policies.many_armed.structured.ckl_ucb import CKLUCB
from nextquery.policies.many_armed.structured.oslb import OSLB
from nextquery.policies.many_armed.subsets.empirical_moss_plus_plus import EmpiricalMossPlusPlus
from nextquery.policies.many_armed.subsets.moss_plus_plus import MossPlusPlus
from nextquery.policies.many_armed.subsets.parallel_moss import ParallelMoss
from nextquery.policies.many_armed.subsets.quantile_moss import QuantileMoss
from nextquery.policies.many_armed.subsets.subsampled_greedy import SubsampledGreedy
from nextquery.policies.many_armed.subsets.subsampled_ucb import SubsampledUCB
from nextquery.policies.many_armed.subsets.ucb_air import UCBAIR
from nextquery.policies.many_armed.subsets.ucb_f import UCBF

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
