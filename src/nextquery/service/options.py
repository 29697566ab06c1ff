"""How the engine works: every setting with its range, checked when it is made."""

from dataclasses import asdict, dataclass, field
from typing import Any

from nextquery.checks import number, whole_number
from nextquery.memory.memory import SESSIONS
from nextquery.outcomes import Learning
from nextquery.policies import Policy
from nextquery.policies.names import SERVED, policy_named, with_alpha
from nextquery.warm_start import WARM_EXAMPLES, WARM_SESSIONS


@dataclass(frozen=True)
class EngineOptions:
    """Settings of the engine.

    Parameters
    ----------
    policy : a name of the registry (`nextquery.policies.names`), or a variant of one. The default
        learns how far to trust similarity, order and popularity.
    alpha : weight of LinUCB's bonus for what is not known yet, at least 0; None: the policy's own.
    k : candidates selected for an anchor, at least 1.
    m_max : longest slate a request may ask for, at least 1.
    exploration : share of entries drawn uniformly from the candidates, in [0, 1].
    seed : of every random draw.
    repeat : whether a session may be shown again what it was shown before.
    timeout_s : after so many seconds without feedback a delivered slate has failed; above 0.
    timeout_fails : ``first``, only its first entry failed; or ``all``.
    learn_issued : whether a query that was typed instead, when it is an arm, counts as a success.
        Off: an arm outside the slate is then only ever seen to succeed, which flatters it.
    min_users : a query becomes an arm when so many distinct users issued it; at least 2.
    new_arms : whether queries become arms at all.
    user_hash_secret : the key under which users are hashed; empty lets the store keep one.
    gather_ms : how long concurrent requests may wait for each other, 0 to 3 milliseconds.
    batch : requests answered from one scan, at least 1.
    cache_size : candidate sets kept for repeated anchors, at least 0.
    max_inflight : with more requests waiting than this, the most similar arms answer; at least 1.
    max_waiting : with more than this, requests are refused; at least `max_inflight`.
    snapshot_every : events between two snapshots, at least 1.
    snapshots_kept : at least 1.
    poll_s : how often the log is read when nobody says that it grew; above 0.
    warm_sessions : past sessions, the newest, from which weights are learnt before the first user
        comes; at least 0. A fifth of them is kept for calibration.
    warm_examples : how many examples of feedback the warm start weighs, at least 0: the fewer, the
        sooner clicks outweigh it.
    memory_sessions : past sessions, the newest, that the memory keeps; at least 0.

    >>> EngineOptions(min_users=1)
    Traceback (most recent call last):
    nextquery.errors.InvalidInput: min_users must be a whole number of at least 2; received 1.
    """

    policy: str = SERVED
    alpha: float | None = None
    k: int = 250
    m_max: int = 50
    exploration: float = 0.02
    seed: int = 0
    repeat: bool = False
    timeout_s: float = 60.0
    timeout_fails: str = "first"
    learn_issued: bool = False
    min_users: int = 2
    new_arms: bool = True
    user_hash_secret: str = field(default="", repr=False)
    gather_ms: float = 2.0
    batch: int = 64
    cache_size: int = 4096
    max_inflight: int = 512
    max_waiting: int = 8192
    snapshot_every: int = 5000
    snapshots_kept: int = 2
    poll_s: float = 0.2
    warm_sessions: int = WARM_SESSIONS
    warm_examples: int = WARM_EXAMPLES
    memory_sessions: int = SESSIONS

    def __post_init__(self) -> None:
        if self.alpha is not None:
            number(self.alpha, "alpha", low=0)
        self.new_policy()
        assert self.learning
        number(self.exploration, "exploration", low=0, high=1)
        number(self.gather_ms, "gather_ms", low=0, high=3)
        for name in ("timeout_s", "poll_s"):
            number(getattr(self, name), name, low=0, above_low=True)
        for name in ("k", "m_max", "batch", "max_inflight", "snapshot_every", "snapshots_kept"):
            whole_number(getattr(self, name), name, at_least=1)
        for name in ("seed", "cache_size", "warm_sessions", "warm_examples", "memory_sessions"):
            whole_number(getattr(self, name), name, at_least=0)
        whole_number(self.min_users, "min_users", at_least=2)
        whole_number(self.max_waiting, "max_waiting", at_least=self.max_inflight)

    def of_the_model(self) -> dict[str, Any]:
        """The settings that decide what the model is: a change makes a new model event."""
        names = ("k", "warm_sessions", "warm_examples", "memory_sessions")
        said = asdict(self)
        return {"policy": self.policy_name, **{name: said[name] for name in names}}

    @property
    def policy_name(self) -> str:
        """The policy with its α, where that is not its own."""
        return self.policy if self.alpha is None else with_alpha(self.policy, self.alpha)

    @property
    def learning(self) -> Learning:
        """What slates teach."""
        return Learning(self.timeout_fails, self.learn_issued)

    def new_policy(self) -> Policy:
        """The policy before it has learnt anything."""
        return policy_named(self.policy_name, seed=self.seed)
