"""Play step by step beside published code, and stop at the first arm on which they differ.

    python -m benchmarks.many_armed_traces FOLDER

FOLDER has checkouts of SMPyBandits/SMPyBandits, mjedor/greedy-bandits,
khashayarkhv/many-armed-bandit and yinglunz/on-regret-with-multiple-best-arms, each under the name
of its repository; what is not there is skipped. The published code decides: in every round, the arm
that it plays must be among those that our policy may play, each with the same probability, and both
learn its reward. Where it draws arms at random, it is given our draws.
"""

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import nextquery as nq
from nextquery.policies.registry import policy_class
from nextquery.research.many_armed.failures import Sequential

ROUNDS = 3000


class Ours:
    """One of our policies, which plays what it is told and checks that it might have played it."""

    def __init__(self, policy: nq.Policy, n: int, rows: Any = None) -> None:
        self.policy: Any = policy
        rows = np.ones((n, 1)) if rows is None else rows
        self.candidates = nq.Candidates(np.arange(n), rows, np.ones(n), np.ones(n))
        self.context = nq.Context(np.ones(rows.shape[1]))
        self.rounds = 0

    def drawn(self, k: int, salt: int = 0) -> Any:
        """Return the k arms that it draws."""
        return self.policy._draws.places(self.candidates.arms, k, salt)

    def code(self) -> int:
        """Return what it plays the next arm as; 0 for itself."""
        return int(self.policy._next_plays(self.candidates).code)

    def check(self, arm: int | None, code: int | None = None) -> int:
        """Stop if it would not play this arm, or as this; return the arm."""
        policy, features = self.policy, self.policy._features(self.candidates, self.context)
        scores = policy._scores(self.candidates, features)
        own = policy._probabilities(self.candidates, features, scores, np.random.default_rng(0))
        if code is not None and self.code() != code:
            raise SystemExit(f"round {self.rounds + 1}: as {self.code()}, they as {code}")
        arm = int(own.argmax()) if arm is None else int(arm)
        if own[arm] <= 0 or (not code and own[arm] != own.max()):
            raise SystemExit(f"round {self.rounds + 1}: arm {int(own.argmax())}, they {arm}")
        return arm

    def learn(self, arm: int, reward: float) -> None:
        """Learn the reward of an arm."""
        features = self.policy._features(self.candidates, self.context)
        self.policy.update(nq.Choice(int(arm), features[int(arm)], 0.0, 1.0), float(reward))
        self.rounds += 1


def ours(name: str, n: int, rows: Any = None, **params: Any) -> Ours:
    return Ours(policy_class(name)(**params), n, rows)


class Patched:
    """Numpy, but for some functions; for a module of published code."""

    def __init__(self, random: Any, **functions: Any) -> None:
        self.random, self.functions = random, functions

    def __getattr__(self, name: str) -> Any:
        return self.functions.get(name) or getattr(np, name)


class Luck:
    """`numpy.random`, but draws without replacement and choices among ties come from us."""

    def __init__(self, draw: Callable[..., Any], prefer: Callable[[], int] = lambda: -1) -> None:
        self.draw, self.prefer, self.rng = draw, prefer, np.random.RandomState(0)

    def choice(self, values: Any, size: Any = None, replace: bool = True) -> Any:
        """Return our draw, or what we would choose, if it is among the values."""
        if not replace:
            return self.draw(values, size)
        return self.prefer() if self.prefer() in list(values) else self.rng.choice(values)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.rng, name)


def index_policies(folder: Path) -> None:
    """SMPyBandits: UCB, MOSS-H, MOSS-anytime."""
    sys.path.insert(0, str(folder / "SMPyBandits" / "Policies"))
    means, rng = np.linspace(0.1, 0.8, 15), np.random.default_rng(0)
    for module, theirs, name, params, extra in (
        ("UCB", "UCB", "ucb1", {}, {}),
        ("MOSSH", "MOSSH", "moss", {"horizon": ROUNDS}, {"horizon": ROUNDS}),
        ("MOSSAnytime", "MOSSAnytime", "moss-anytime", {"bonus": 1.35}, {"alpha": 1.35}),
    ):
        with np.errstate(all="ignore"):
            player = getattr(importlib.import_module(module), theirs)(15, **extra)
            player.startGame()
            mine = ours(name, 15, **params)
            for _ in range(ROUNDS):
                arm = int(player.choice())
                reward = float(rng.random() < means[mine.check(arm)])
                player.getReward(arm, reward)
                mine.learn(arm, reward)
        same(name, f"SMPyBandits {theirs}")


def greedy_bandits(folder: Path) -> None:
    """mjedor/greedy-bandits: UCB-F after its first rounds, two-target, zooming."""
    sys.path.insert(0, str(folder))
    rng = np.random.default_rng(1)
    means = rng.random(ROUNDS)
    module: Any = importlib.import_module("algorithm.UCBF")
    player, mine = module.UCBF(ROUNDS), ours("ucb-f", ROUNDS, horizon=ROUNDS)
    player.start_game()
    player.index = mine.drawn(player.nb_arms)
    for t in range(ROUNDS):
        arm = int(player.choice())
        if t >= 2 * player.nb_arms:  # they play each arm twice before they look at indices
            mine.check(arm)
        reward = float(rng.random() < means[arm])
        player.get_reward(arm, reward)
        mine.learn(arm, reward)
    same("ucb-f", "greedy-bandits UCBF, from the third play of each arm")
    module = importlib.import_module("algorithm.TwoTarget")
    player, mine = module.TwoTarget(ROUNDS, 3), ours("two-target", ROUNDS, horizon=ROUNDS)
    player.start_game()
    player.index = mine.drawn(ROUNDS)
    for _ in range(ROUNDS):
        arm = mine.check(int(player.choice()))
        reward = float(rng.random() < means[arm])
        player.get_reward(arm, reward)
        mine.learn(arm, reward)
    same("two-target", "greedy-bandits TwoTarget")
    zooming(importlib.import_module("algorithm.Zooming"), rng)


def zooming(module: Any, rng: np.random.Generator) -> None:
    grid = np.linspace(0, 1, 101)
    rows = np.column_stack([np.cos(np.pi * grid), np.sin(np.pi * grid)])
    horizon = 20
    mine = ours("adaptive-zooming", 101, rows, horizon=horizon)
    luck = Luck(lambda values, size: None)

    def shuffle(a: Any) -> None:
        first = np.flatnonzero(grid == grid[max(mine.code() - 1, 0)])
        a[:] = np.concatenate([grid[first], np.delete(grid, first)])

    luck.rand = lambda: grid[mine.code() - 1]  # type: ignore[attr-defined]
    luck.shuffle = shuffle  # type: ignore[attr-defined]
    module.np = Patched(luck)
    player = module.Zooming(horizon)
    player.start_game()
    for _ in range(ROUNDS):
        x = player.choice()
        arm = mine.check(int(np.flatnonzero(grid == x)[0]))
        reward = float(rng.random() < 0.9 - 0.8 * abs(x - 0.3))
        player.get_reward(x, reward)
        mine.learn(arm, reward)
    same("adaptive-zooming", f"greedy-bandits Zooming, {len(player.arms)} arms active")


def many_armed_bandit(folder: Path) -> None:
    """khashayarkhv/many-armed-bandit: SSG, SS-UCB (with f as printed), UCB-F."""
    sys.path.insert(0, str(folder))
    module: Any = importlib.import_module("mmab")
    rounds = 2500  # a square: they round √T down, and we up
    k, t = 500, np.arange(1, rounds + 1)
    games: tuple[tuple[str, Callable[[Any, int], Any]], ...] = (
        ("subsampled-greedy", lambda a, m: a.greedy(m)),
        (
            "subsampled-ucb",
            lambda a, m: a.generic_ucb(np.full(rounds, 2.0), 1 + t * np.log(t) ** 2, m),
        ),
        ("ucb-f", lambda a, m: a.ucb_F(1)),
    )
    for name, play in games:
        mine = ours(name, k, horizon=rounds)
        means = np.random.RandomState(3).random_sample(k)
        np.random.seed(4)  # noqa: NPY002  (the published code draws from it)
        game = module.MMAB(rounds, k, means, binary=True)
        m = mine.policy.arms_in_play(k, 1)
        drawn = mine.drawn(m).tolist()
        sample = lambda values, size, drawn=drawn: drawn[:size]  # noqa: E731
        module.random = type("Sample", (), {"sample": staticmethod(sample)})
        pulls = play(game, m)[1].astype(int)
        size = len(set(pulls[:m].tolist()) & set(drawn))
        for played, arm in enumerate(pulls.tolist()):
            if played >= size:
                mine.check(arm)
            mine.learn(arm, game.obs[played, arm])
        same(name, "many-armed-bandit mmab.py", rounds)


def multiple_best_arms(folder: Path) -> None:
    """yinglunz/on-regret-with-multiple-best-arms: MOSS, MOSS++, empirical, quantile, Parallel."""
    sys.path.insert(0, str(folder))
    module: Any = importlib.import_module("regret_class")
    n = 500
    means = np.concatenate([np.full(10, 0.9), np.resize([0.1, 0.2, 0.3, 0.4, 0.5], n - 10)])
    means = np.random.default_rng(0).permutation(means)
    for name, kind, method in (
        ("moss", "MOSS", "update"),
        ("moss-plus-plus", "MOSSPLUS", "update_vanilla"),
        ("empirical-moss-plus-plus", "MOSSPLUS", "update_emp"),
        ("quantile-moss", "Quantile", "update"),
    ):
        beside(module, means, name, kind, method)
    parallel(module, means)


def beside(module: Any, means: Any, name: str, kind: str, method: str) -> None:
    n = len(means)
    mine = ours(name, n, **({} if name == "quantile-moss" else {"horizon": ROUNDS}))
    module.np = Patched(Luck(lambda values, size: None))
    player: Any = None
    ordered = isinstance(mine.policy, Sequential)

    def draw(values: Any, size: int) -> Any:
        if ordered:
            places = mine.policy._places(mine.candidates.arms)
            assert len(places) == size
            return places
        known = 0 if player is None else len(player.index_select)
        return mine.drawn(known + size)[known:]

    def argsort(values: Any) -> Any:
        best = mine.policy._kept
        assert sorted(values[best])[::-1] == sorted(values)[::-1][: len(best)]
        return np.concatenate([np.setdiff1d(np.arange(n), best), best[::-1]])

    def hstack(parts: Any) -> Any:  # they look at the indices before they add the arms
        player.index_select = np.concatenate(parts).astype(int)
        for arm in player.index_select[player.pulls[player.index_select] > 0]:
            player.ucbs[arm] = player.rewards[arm] + player.compute_ci_MOSS(arm)
        return player.index_select

    module.np = Patched(
        Luck(draw, lambda: mine.code() - 1 if ordered else -1), argsort=argsort, hstack=hstack
    )
    args = (means, "bernoulli", 1.0, 10**9 if kind == "Quantile" else ROUNDS)
    if kind == "MOSSPLUS":
        player = module.MOSSPLUS(*args, 0.5)
    else:
        player = getattr(module, kind)(args[0], n if kind == "MOSS" else 2, *args[1:])
    virtual = np.zeros(1)
    for _ in range(ROUNDS):
        pulls, wins = player.pulls.copy(), player.wins.sum()
        extra = getattr(player, "pulls_extra", virtual).copy()
        extra_wins = getattr(player, "wins_extra", virtual).sum()
        before = getattr(player, "l", 0)
        getattr(player, method)()
        if kind == "MOSSPLUS" and player.l != before and method == "update_vanilla":
            pulls[:], wins, extra[:], extra_wins = 0, 0.0, 0, 0.0  # statistics begin anew
        now = getattr(player, "pulls_extra", virtual)
        now_wins = getattr(player, "wins_extra", virtual).sum()
        reward = (player.wins.sum() - wins) + (now_wins - extra_wins)
        j = np.flatnonzero(now - extra)
        if len(j):
            arm = mine.check(None, int(j[0]) + 1)
        else:
            as_itself = 0 if kind == "MOSSPLUS" else None
            arm = mine.check(int(np.flatnonzero(player.pulls - pulls)[0]), as_itself)
        mine.learn(arm, reward)
    same(name, f"on-regret-with-multiple-best-arms {kind}.{method}")


def parallel(module: Any, means: Any) -> None:
    n = len(means)
    mine = ours("parallel-moss", n, horizon=ROUNDS, best=0.9)
    called: list[Any] = []

    def draw(values: Any, size: int) -> Any:
        called.append(mine.drawn(size, salt=len(called)))
        return np.asarray(values)[called[-1]]

    module.np = Patched(Luck(draw, mine.code))
    player = module.Parallel(means, "bernoulli", 1.0, ROUNDS)
    for _ in range(ROUNDS):
        before = [part.pulls.copy() for part in player.SR]
        wins = sum(part.wins.sum() for part in player.SR)
        # The choice among equal arms of a subroutine must not look like that of a subroutine.
        player.update()
        code = player.index_SR
        place = int(np.flatnonzero(player.SR[code].pulls - before[code])[0])
        arm = int(called[code][place])
        wanted = mine.policy._next_plays(mine.candidates)
        if wanted.code != code or arm not in wanted.places:
            raise SystemExit(f"round {mine.rounds + 1}: subroutine {wanted.code}, they {code}")
        mine.learn(arm, sum(part.wins.sum() for part in player.SR) - wins)
    same("parallel-moss", "on-regret-with-multiple-best-arms Parallel")


def same(name: str, theirs: str, rounds: int = ROUNDS) -> None:
    print(f"{name:<26} {rounds:,} rounds equal to {theirs}", flush=True)


CHECKS = {
    "SMPyBandits": index_policies,
    "greedy-bandits": greedy_bandits,
    "many-armed-bandit": many_armed_bandit,
    "on-regret-with-multiple-best-arms": multiple_best_arms,
}

if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    for repository, check in CHECKS.items():
        if (Path(sys.argv[1]) / repository).exists():
            check(Path(sys.argv[1]) / repository)
        else:
            print(f"{repository}: not in {sys.argv[1]}, skipped")
