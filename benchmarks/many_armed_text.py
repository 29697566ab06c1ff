"""The words of docs/many-armed.md that do not come from result files."""

BEFORE = """
# Bandits for very many arms

The paper that nextquery implements says that bandits for countably many arms do not fit query recommendation, and names them. Here they are side
by side, each in a small file of its own, on the same contract as LinUCB. This page is made by `python -m benchmarks.many_armed_page`
from the registry and from result files; do not edit it.

```sh
nextquery algorithms                              # every policy: assumptions, parameters, reference (--json)
nextquery replay POOL --out RUN --policy two-target@horizon=1000 --policy ucb-air --policy lin-ucb
```

```python
>>> import nextquery as nq
>>> nq.policy("moss-plus-plus@horizon=50000")
MossPlusPlus(horizon=50000, beta=0.5, seed=0)

```

- **What is an arm here.** Statistics are kept per arm. In anchored experiments every anchor has a policy of its own, so they are kept per anchor and arm.
- **Drawing arms.** A policy that plays only some of the arms draws them by a random number that depends on its seed and on the arm (`order.py`). In a fixed
  set this is a draw without replacement; when candidates come and go, each arm keeps its number. In anchored experiments each anchor and seed draws others.
- **A known horizon** is the parameter `horizon` (1,000 by default): set it to the number of rounds.
- **The order of rewards.** Some policies end phases at fixed rounds, or look at runs. They learn each reward before the next choice, have slates of one entry, and
  reject corrections and late feedback; the stream and the service reject them by name. All others learn late feedback and corrections exactly.

## The algorithms
"""

AFTER = """
A bound that says "not confirmed" or "from memory" was not found in a text that we could read; the rule itself was.

## What the papers claim, and what we found

Results are means with 95% intervals over games. Game g draws from a generator of (seed 0, world, policy, g). `python -m benchmarks.many_armed` plays
them all again. All policies run with the code that the library serves: index policies and failure rules compiled, the others in Python.

![Results on the synthetic worlds](figures/many-armed-worlds.png)
"""

TITLES = {
    "berry": "Berry et al. 1997; Bonald and Proutière 2013",
    "zhu": "Zhu and Nowak 2020",
    "bayati": "Bayati et al. 2020",
    "wang": "Wang, Audibert and Munos 2008",
    "magureanu": "Magureanu, Combes and Proutière 2014",
    "hill": "Kleinberg, Slivkins and Upfal 2008",
}

WORLD_TEXT = {
    "berry": """
With uniform means, no strategy can have fewer than √(2N) failures asymptotically (141 for N = 10,000), and strategies by runs reach 2√N (200). Two-target reaches
√(2N) for a large m; it runs with m = 3. m-run returns to the best of its first arms when none had a run, which costs more at this N than to go on: it
has no interval below 2√N.""",
    "zhu": """
The share of best arms is 1/(2 T^0.25), so MOSS on all 20,000 arms spends its rounds on arms that it plays two or three times. MOSS++ and its rivals play few arms.
The paper plays 100 games; the intervals are already narrow with fewer.""",
    "bayati": """
The paper's point: with many arms, greedy explores for free, and greedy on a subsample beats UCB on all arms and on a subsample. Gaussian noise has σ = 1. Greedy on all
3,000 arms spends 3,000 of the 20,000 rounds on playing each once.""",
    "wang": """
The theorem has regret Õ(T^(β/(β+1))) for β > 1, and where the best mean is 1, as here, for every β: exponents of 0.33, 0.5 and 0.75. UCB-V's confidence is wide, so at these
T the growth from one T to the next, four times longer, is steeper than the bound alone; the rows let you compute it.""",
    "magureanu": """
Near arms share what they learn. The constant L is the true one, the steepest step between neighbours, and the distance is |i − j|/K. The paper plays 10,000 rounds; here
they are 2,000, since each round of OSLB solves a linear programme. OSLB pays off where L is small against the gaps; CKL-UCB's threshold
f(t) = ln t + (3K + 1) ln ln t makes it explore longer than UCB1 at this T.""",
    "hill": """
With a known horizon the balls shrink slowly: r = √(2 ln T / (s + 1)) is above 0.5 until an arm was played 79 times. With phases that begin anew and r = √(8 i / (2 + s)),
they hardly ever shrink.""",
}

ANCHORED_TEXT = """
## In the anchored protocol

The paper's protocol: fixed anchors, 1 for a query of the same session. Log `topics` (built in; `nextquery ingest topics --out POOL`), seed 0, T = 200:

```sh
nextquery replay POOL --out RUN250 --anchors 200 --rounds 200 -k 250 --policy lin-ucb --policy ucb1 --policy moss@horizon=200 …
nextquery replay POOL --out RUN25 --anchors 50 --rounds 200 -k 25 --policy lin-ucb --policy oslb --policy ckl-ucb …
python -m benchmarks.many_armed_page RUN250 RUN25
```

None of these policies knows how similar a candidate is to the anchor: they start from a random arm, where `lin-ucb` (max-utility, untried arms in order of preference) starts from
the likeliest. With 250 candidates and 200 rounds, that order is most of what matters.

![Per-round regret in the anchored protocol](figures/many-armed-anchored.png)
"""

SPEEDS = """
## Speed

Compiled games of index policies, one core, CPU time (`python -m benchmarks.many_armed_speed`), and the linear programme of OSLB, one per choice. The paper calls OSLB infeasible at
its scale. One choice takes longer than 10 ms from about a hundred arms on. A million arms have 10¹² coefficients: 8 TB before it starts.
"""

TRACES = """
## Equal to published code, step by step

`python -m benchmarks.many_armed_traces FOLDER` plays beside checkouts of published code, with its draws replaced by ours, and stops at the first arm on which they
differ. None of that code is part of nextquery. It found no difference in 3,000 rounds (2,500 for the third row):

| published code | policies |
|---|---|
| SMPyBandits (`UCB`, `MOSSH`, `MOSSAnytime`) | `ucb1`, `moss`, `moss-anytime` with α = 1.35 |
| mjedor/greedy-bandits (`UCBF`, `TwoTarget`, `Zooming`) | `ucb-f` from the third play of each arm on (theirs plays each twice before it looks at indices), `two-target`, `adaptive-zooming` with a horizon, on 101 points |
| khashayarkhv/many-armed-bandit (`mmab.py`) | `subsampled-greedy`, `subsampled-ucb` with the printed f(t) = 1 + t ln² t (their code has 1 + 2 t ln t), `ucb-f` |
| yinglunz/on-regret-with-multiple-best-arms (`regret_class.py`) | `moss`, `moss-plus-plus`, `empirical-moss-plus-plus`, `parallel-moss`, `quantile-moss` (theirs looks at the indices of an epoch before it adds the epoch's arms, and cuts the last epoch at T) |

The others (`k-failure`, the runs, `m-learning`, `ucb-air`, `oslb`, `ckl-ucb`, zooming in phases) are tested against traces computed by hand.
"""

LEFT_OUT = (
    TRACES
    + """
## What is left out, and what to know

- **Herschkorn, Peköz and Ross 1996**, policies without memory: no text at hand gives the constants of its runs.
- **Kalvit and Zeevi 2020**, the adaptive rule for countably many arms of a few types: we could read abstracts only, and the rule as remembered rejects every pair of arms
  without a burn-in whose length we do not know.
- **OSLB's own rule of exploration** (which arm to play while the programme is not satisfied) could not be confirmed. `oslb` solves its linear programme and explores by the form of
  its successors DEL and OSSB.
- **CKL-UCB** counts evidence only where a mean is below what it is compared with, as OSLB's programme does. The public implementation that we read uses the plain divergence.
- **m-learning** stops in the middle of an arm's trial, at round m; an arm without a failure counts as the best. The source for it is code, not the paper's text.
- **UCB-F**: the paper prints T^(β/(β+2)) for β ≥ 1. Its theorem and both implementations have T^(β/(β+1)), and so has ours.
- **Rewards**: failure-based policies take 0 and 1 and nothing else; Thompson sampling takes rewards from 0 to 1.
- **Finite pools**: when all candidates were tried, a failure-based policy begins again with the one that it left first, and counts it as a new arm.
"""
)
