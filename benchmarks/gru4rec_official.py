"""Our GRU4Rec beside the official code, on the same log, with the same split and parameters.

    python -m benchmarks.gru4rec_official CHECKOUT [--seeds 5] [--log POOL] [--epochs 5]

CHECKOUT has hidasib/GRU4Rec_PyTorch_Official. Two comparisons for each setting:

- **step by step**: both start from the official weights and draw our negatives, without dropout;
  printed is by how much the losses of an epoch differ, at most: at the steps at which all lanes
  read, and at its last steps. (At those, with logq, the official code takes the first negatives for
  targets of lanes that are idle.)
- **several seeds**: each draws its own weights and negatives; recall@20 and MRR@20 of the next
  query in test sessions that begin after the training sessions, among all items, ties counted
  against the model (each by its own code), with the 95% interval of the difference (Welch). The
  official code always starts from the weights of its fixed seed; its negatives differ.
"""

import argparse
import contextlib
import importlib
import io
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from nextquery.arms import ArmPool
from nextquery.research.neural.data import TrainingData
from nextquery.research.neural.gru4rec import Gru4RecTask
from nextquery.research.neural.registry import Gru4RecOptions
from nextquery.sessions import Sessions

CPU = torch.device("cpu")
SETTINGS: dict[str, dict[str, Any]] = {
    "cross-entropy, tied": {},
    "BPR-max, tied, dropout": {
        "loss": "bpr-max",
        "dropout": 0.2,
        "embedding_dropout": 0.2,
        "rate": 0.1,
    },
    "cross-entropy, untied, 2 layers, momentum, logq": {
        "tied": False,
        "layers": 2,
        "momentum": 0.3,
        "logq": 1.0,
        "popularity": 0.5,
    },
}


def synthetic(items: int = 600, sessions: int = 6000, seed: int = 0) -> Sessions:
    """Return sessions that walk a ring of their group, one way or the other, with detours."""
    rng = np.random.default_rng(seed)
    group = 30
    favour = 1 / np.arange(1, group + 1)
    rows = []
    for _ in range(sessions):
        first, way = group * int(rng.integers(items // group)), int(rng.choice([-1, 1]))
        at = int(rng.integers(group))
        row = [first + at]
        for _ in range(int(rng.integers(1, 9))):
            draw = rng.random()
            if draw < 0.6:
                at = (at + way) % group
            elif draw < 0.9:
                at = int(rng.choice(group, p=favour / favour.sum()))
            row.append(first + at if draw < 0.95 else int(rng.integers(items)))
        rows.append(row)
    return Sessions.of(rows).without_repeats()


def of_pool(folder: str) -> Sessions:
    """Return the sessions of a pool, in order of time."""
    origin = ArmPool.open(folder).origin
    if origin is None:
        raise SystemExit(f"{folder} has no sessions")
    return origin.sessions.without_repeats()


def split(sessions: Sessions) -> tuple[Sessions, Sessions]:
    """Return the oldest nine tenths, and the rest with only items known from them.

    Both only sessions of two or more queries.
    """
    usable = sessions.take(np.flatnonzero(sessions.lengths >= 2))
    cut = usable.size * 9 // 10
    training, test = usable.take(np.arange(cut)), usable.take(np.arange(cut, usable.size))
    known = np.zeros(int(usable.arms.max()) + 1, bool)
    known[training.arms] = True
    arms = np.flatnonzero(known)
    number = np.cumsum(known) - 1
    test = test.where(known)
    test = test.take(np.flatnonzero(test.lengths >= 2))
    assert len(arms) == number[-1] + 1
    return (
        training._replace(arms=number[training.arms]),
        test._replace(arms=number[test.arms]),
    )


def frame(sessions: Sessions) -> Any:
    """Return sessions as the table that the official code reads."""
    import pandas  # type: ignore[import-untyped,unused-ignore]

    number = np.repeat(np.arange(sessions.size), sessions.lengths)
    time = np.arange(len(sessions.arms))
    return pandas.DataFrame({"SessionId": number, "ItemId": sessions.arms, "Time": time})


def data_of(training: Sessions, test: Sessions) -> TrainingData:
    """Return the split as our code reads it."""
    items = int(training.arms.max()) + 1
    vectors = np.zeros((items, 1), np.float32)  # unused: every item learns a vector
    names = [str(item) for item in range(items)]
    return TrainingData(names, np.arange(items), vectors, training, test, None)


def ours(data: TrainingData, options: Gru4RecOptions, seed: int) -> tuple[float, float]:
    """Train ours to the last step; return recall@20 and MRR@20."""
    task = Gru4RecTask(data, options, seed, CPU)
    list(steps_of(task, seed, task.steps))
    measured = task.measured(data.validation)
    return measured.recall, measured.mrr


def steps_of(task: Gru4RecTask, seed: int, steps: int) -> Iterator[float]:
    """Take steps as the loop does, without checks; yield their losses."""
    optimizer = task.optimizer()
    for group in optimizer.param_groups:
        group["lr"] = group["rate"]
    for step in range(steps):
        task.module.train()
        torch.manual_seed((seed << 32) + step)
        loss = task.loss(step)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        yield float(loss.detach())


def official_params(options: Gru4RecOptions) -> dict[str, Any]:
    """Return our parameters under the names of the official code."""
    return {
        "layers": [options.hidden] * options.layers,
        "loss": options.loss,
        "batch_size": options.batch,
        "dropout_p_embed": options.embedding_dropout,
        "dropout_p_hidden": options.dropout,
        "learning_rate": options.rate,
        "momentum": options.momentum,
        "sample_alpha": options.popularity,
        "n_sample": options.negatives,
        "embedding": 0 if options.tied else options.hidden,
        "constrained_embedding": options.tied,
        "n_epochs": options.epochs,
        "bpreg": options.regularisation,
        "elu_param": options.elu,
        "logq": options.logq,
    }


def official(
    code: Any, data: TrainingData, options: Gru4RecOptions, seed: int
) -> tuple[float, float]:
    """Train the official model; return recall@20 and MRR@20 by its own evaluation."""
    evaluation = importlib.import_module("evaluation")
    torch.manual_seed(seed)
    with contextlib.redirect_stdout(io.StringIO()):
        model = code.GRU4Rec(device=CPU, **official_params(options))
        model.fit(frame(data.training), sample_cache_max_size=options.negatives * 1000)
        model.model.eval()
        test = frame(data.validation)
        test["SessionId"] += data.training.size
        recall, mrr = evaluation.batch_eval(model, test, cutoff=[20], mode="conservative")
    return float(recall[20]), float(mrr[20])


def trace(code: Any, data: TrainingData, options: Gru4RecOptions) -> tuple[float, float]:
    """Return by how much the losses of an epoch differ at most, relatively.

    First at the steps at which all lanes read, then at the others, at the end of the epoch.
    """
    task = Gru4RecTask(data, options, 0, CPU)
    theirs: list[float] = []
    first: dict[str, Any] = {}
    _, place = np.unique(data.training.arms, return_index=True)
    order = np.argsort(place)  # the official code numbers items as they come
    number = np.argsort(order)

    class OurNegatives:
        """The official store of negatives, with our draws."""

        def __init__(self, *_: Any, **__: Any) -> None:
            self.step = -1

        def get_sample(self) -> Any:
            self.step += 1
            return torch.from_numpy(number[task._negatives(self.step)])

    with contextlib.redirect_stdout(io.StringIO()):
        model = code.GRU4Rec(device=CPU, **official_params(options) | {"n_epochs": 1})
        loss, reset = model.loss_function, code.GRU4RecModel._reset_weights_to_compatibility_mode

        def recorded(*given: Any) -> Any:
            value = loss(*given)
            theirs.append(float(value.detach()) / options.batch)
            return value

        def remembered(module: Any) -> None:
            reset(module)
            first.update({name: value.clone() for name, value in module.state_dict().items()})

        model.loss_function = recorded
        store, code.SampleCache = code.SampleCache, OurNegatives
        code.GRU4RecModel._reset_weights_to_compatibility_mode = remembered
        try:
            model.fit(frame(data.training))
        finally:
            code.SampleCache = store
            code.GRU4RecModel._reset_weights_to_compatibility_mode = reset
    start_from(task, first, number)
    steps = len(task._epoch)
    own = np.array(list(steps_of(task, 0, steps)))
    if len(theirs) != steps:
        raise SystemExit(f"they take {len(theirs)} steps in an epoch, we take {steps}")
    apart = np.abs(own - theirs) / np.abs(theirs)
    full = np.array([len(step.lanes) == options.batch for step in task._epoch])
    return float(apart[full].max()), float(apart[~full].max(initial=0.0))


def start_from(task: Gru4RecTask, first: dict[str, Any], number: Any) -> None:
    """Give our module the official weights."""
    module: Any = task.module
    with torch.no_grad():
        module.outputs.table.weight.copy_(first["Wy.weight"][number])
        if module.own_outputs is not None:
            module.inputs.table.weight.copy_(first["E.weight"][number])
        module.bias.weight.copy_(first["By.weight"][number])
        for name, value in first.items():
            if name.startswith("G."):
                _, layer, what = name.split(".")
                getattr(module.network.layers[int(layer)], f"{what}_l0").copy_(value)


def in_single_precision(function: Any) -> Any:
    """Return the function with its result in float32, as before NumPy 2.

    Under NumPy 2 a float32 array times a float64 number has 64 bits, and the official code fails
    when it gives such weights to its network.
    """

    def made(*given: Any) -> Any:
        return function(*given).astype(np.float32)

    return made


def interval(one: Any, other: Any) -> str:
    """Return the difference of two means with its 95% interval (Welch)."""
    from scipy import stats

    found = stats.ttest_ind(one, other, equal_var=False).confidence_interval(0.95)
    return f"{np.mean(one) - np.mean(other):+.4f} [{found.low:+.4f}, {found.high:+.4f}]"


def main() -> None:
    """Compare, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--only", default="", help="settings whose name contains this")
    parser.add_argument("--log", default="synthetic", help="synthetic, or a pool")
    given = parser.parse_args()
    sys.path.insert(0, str(given.checkout))
    code = importlib.import_module("gru4rec_pytorch")
    code.GRU4RecModel._init_numpy_weights = in_single_precision(
        code.GRU4RecModel._init_numpy_weights
    )
    sessions = synthetic() if given.log == "synthetic" else of_pool(given.log)
    data = data_of(*split(sessions))
    test = data.validation
    print(
        f"{given.log}: {data.training.size:,} training sessions, {len(data.texts):,} items, "
        f"{int((test.lengths - 1).sum()):,} test steps; {given.seeds} seeds, {given.epochs} epochs"
    )
    print(
        "| setting | losses differ by, at the end | recall@20: official, ours, ours less official "
        "| MRR@20 |"
    )
    print("|---|---|---|---|")
    for name, changes in SETTINGS.items():
        if given.only not in name:
            continue
        usual: dict[str, Any] = {"items": "learned", "hidden": 64, "batch": 32, "negatives": 256}
        options = Gru4RecOptions(**usual | {"epochs": given.epochs} | changes)
        still = Gru4RecOptions(
            **usual | {"epochs": 1} | changes | {"dropout": 0.0, "embedding_dropout": 0.0}
        )
        apart = trace(code, data, still)
        them = np.array([official(code, data, options, seed) for seed in range(given.seeds)])
        us = np.array([ours(data, options, seed) for seed in range(given.seeds)])
        cells = [
            f"{them[:, at].mean():.4f}, {us[:, at].mean():.4f}, {interval(us[:, at], them[:, at])}"
            for at in (0, 1)
        ]
        print(f"| {name} | {apart[0]:.0e}, {apart[1]:.0e} | {cells[0]} | {cells[1]} |", flush=True)


if __name__ == "__main__":
    main()
