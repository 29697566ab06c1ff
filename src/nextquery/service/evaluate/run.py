"""`nextquery evaluate`: estimates of policies that did not run, with what to think of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nextquery.arms import ArmPool
from nextquery.errors import InvalidInput
from nextquery.experiments.off_policy import ENOUGH, ESTIMATORS, Estimate, Logged
from nextquery.policies.policy import Floats
from nextquery.policies.registry import live_policy
from nextquery.service.evaluate.decisions import OTHER_POOL, Span
from nextquery.service.evaluate.sample import Aimed, Progress, Sample, sample
from nextquery.service.log.store import Store
from nextquery.service.model.prepare import check_pool
from nextquery.service.settings import EngineOptions

PARTS = ("first entry", "slate")
_FEW, _DIFFERENT = 0.01, 0.01  # shares from which a warning is due


@dataclass(frozen=True)
class Evaluated:
    """The hit rates of a policy: `estimates` by `PARTS` and by estimator; and what to beware of.

    `unsupported` is the share of its first entries that the log could not show: they count as
    without a click. `trusted` is whether its slates and the log's overlap enough for the intervals,
    by part.
    """

    policy: str
    estimates: dict[str, dict[str, Estimate]]
    unsupported: float
    trusted: dict[str, bool]
    warnings: list[str]


@dataclass(frozen=True)
class Evaluation:
    """What a log says of policies; `log` has the hit rates of what really ran.

    `left_out` says how many decisions were not used, by reason, and `again` for which share of the
    used ones the policy that ran gives the same propensities when it is computed again.
    """

    decisions: int
    used: int
    sessions: int
    slates: bool  #: whether one of them had more than one entry
    left_out: dict[str, int]
    erased_events: int
    again: float
    ran: dict[str, int]
    log: dict[str, Estimate]
    policies: list[Evaluated]
    warnings: list[str]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            **{name: value for name, value in self.__dict__.items() if name != "policies"},
            "log": _plain(self.log),
            "policies": [
                {
                    **one.__dict__,
                    "estimates": {part: _plain(found) for part, found in one.estimates.items()},
                }
                for one in self.policies
            ],
        }


def evaluate(
    store: Store,
    pool: ArmPool,
    policies: Sequence[str],
    options: EngineOptions | None = None,
    *,
    since: float | None = None,
    until: float | None = None,
    progress: Progress = lambda stage, done: None,
) -> Evaluation:
    """Estimate the hit rates that policies would have had on the decisions of a log.

    Each begins with the warm start from the pool and learns from what the log showed, in the order
    of the log. `options` are those of the service; what the newest model in the log says of them
    wins. Raises `InvalidInput` if the log has no decision that can be used.
    """
    chosen = EngineOptions() if options is None else options
    names = list(dict.fromkeys(policies))
    if not names:
        raise InvalidInput("name a policy to evaluate: --policy NAME.")
    for name in names:
        live_policy(name)
    if since is not None and until is not None and since >= until:
        raise InvalidInput("--since must be before --until.")
    check_pool(store, pool)
    found = sample(store, pool, names, chosen, span=Span(since, until), progress=progress)
    if not found.rewards:
        raise InvalidInput(_nothing(found))
    log = _logged(found, found.logged, found.predicted)
    again = found.again / len(found.rewards)
    return Evaluation(
        decisions=found.decisions,
        used=len(found.rewards),
        sessions=len(set(found.sessions)),
        slates=max(map(len, found.rewards)) > 1,
        left_out=dict(found.left_out.most_common()),
        erased_events=found.erased,
        again=again,
        ran=dict(found.policies.most_common()),
        log={part: cut(ESTIMATORS["ips"](of)) for part, of in _parts(log).items()},
        policies=[evaluated(name, found, aimed) for name, aimed in found.aimed.items()],
        warnings=_other_settings(again),
    )


def evaluated(name: str, found: Sample, aimed: Aimed) -> Evaluated:
    """Return the estimates of a policy, with what to beware of."""
    log = _logged(found, aimed.target, aimed.expected)
    estimates = {
        part: {estimator: cut(estimate(of)) for estimator, estimate in ESTIMATORS.items()}
        for part, of in _parts(log).items()
    }
    worth = {part: found["ips"].effective for part, found in estimates.items()}
    trusted = {part: effective >= ENOUGH for part, effective in worth.items()}
    warnings = []
    for part in (part for part in PARTS if not trusted[part]):
        warnings.append(
            f"do not trust its intervals for the {part}: it recommends what the log seldom showed, "
            f"so {len(log):,} slates are worth {worth[part]:,.0f}, and {ENOUGH:.0f} are needed. "
            "Serve with more exploration, wait for a longer log, or split the traffic."
        )
        break  # a slate is no better than its first entry
    unsupported = aimed.unsupported / len(log)
    if unsupported > _FEW:
        warnings.append(
            f"{unsupported:.1%} of its first entries were no candidates of the policy that ran. "
            "They count as without a click, so its hit rate may be higher."
        )
    return Evaluated(name, estimates, unsupported, trusted, warnings)


def cut(estimate: Estimate) -> Estimate:
    """Cut an interval at 0 and 1: no hit rate lies beyond.

    >>> cut(Estimate(0.1, -0.2, 0.4, 50.0)).low
    0.0
    """
    return estimate._replace(low=max(0.0, estimate.low), high=min(1.0, estimate.high))


def _parts(log: Logged) -> dict[str, Logged]:
    return dict(zip(PARTS, (log.first(), log), strict=True))


def _logged(found: Sample, target: Sequence[Floats], expected: Sequence[Floats]) -> Logged:
    rewards, predicted = _table(found.rewards), _table(found.predicted)
    scale = scales(rewards, predicted)
    return Logged.of(
        rewards,
        _table(found.logged),
        _table(target),
        predicted=predicted * scale,
        expected=_table(expected) * scale,
        sessions=found.sessions,
    )


def scales(rewards: Floats, predicted: Floats) -> Floats:
    """Return by what to multiply predictions: clicks per predicted click in the slates before.

    A prediction is the chance that a query comes next, and not every next query is clicked. What
    a slate itself got plays no part, or the estimate would be biased.

    >>> scales(np.array([[0.0], [1.0], [0.0]]), np.array([[1.0], [1.0], [1.0]])).round(2).tolist()
    [[1.0], [0.5], [0.67]]
    """

    def before(values: Floats) -> Floats:
        total = np.cumsum(np.nan_to_num(values), axis=0)
        return np.concatenate([np.zeros((1, values.shape[1])), total[:-1]])

    found: Floats = (before(rewards) + 1.0) / (before(predicted) + 1.0)
    return found


def _table(rows: Sequence[Floats]) -> Floats:
    """Return rows of different lengths as one table, filled with NaN."""
    table = np.full((len(rows), max(map(len, rows))), np.nan)
    for number, row in enumerate(rows):
        table[number, : len(row)] = row
    return table


def _other_settings(again: float) -> list[str]:
    if again >= 1 - _DIFFERENT:
        return []
    return [
        f"computed again, the policy that ran gives other propensities for {1 - again:.1%} of the "
        "decisions. If the service has other settings than this command (exploration, repeat, "
        "returns, fold_similar), pass them: --config FILE, or --set exploration=0.05. After a "
        "roll-back or nextquery leave-out this is so for what was decided before it: use --since."
    ]


def _nothing(found: Sample) -> str:
    reasons = "; ".join(f"{count:,} {why}" for why, count in found.left_out.most_common())
    why = (
        f"no decision of the log can be used: of {found.decisions:,}, {reasons or 'none'}. An "
        "estimate needs answered slates of a policy with known propensities."
    )
    if not found.left_out[OTHER_POOL]:
        return why
    return (
        f"{why} The candidates of an earlier pool cannot be selected again. Let the service answer "
        "with the pool of now for a while, or estimate from an export: nextquery export --format "
        "obp."
    )


def _plain(estimates: dict[str, Estimate]) -> dict[str, dict[str, float]]:
    return {name: estimate._asdict() for name, estimate in estimates.items()}
