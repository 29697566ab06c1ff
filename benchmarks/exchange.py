"""Export a log and use it in the programs that the formats are for, as they are.

The log: past sessions of a pool go through the engine, and a person clicks when the next query is
in the slate. Then every format is written and read by its program; what is not there is named.

    python -m benchmarks.exchange POOL [--sessions 1500] [--obp PYTHON] [--vw PYTHON]
        [--gru4rec CHECKOUT] [--hred CHECKOUT]

PYTHON is an interpreter with `obp` or `vowpalwabbit`; this one by default. The checkouts are
hidasib/GRU4Rec_PyTorch_Official and sordonia/hred-qs (the preparation of its data, translated from
Python 2 by lib2to3, which Python has until 3.12).
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections import deque
from pathlib import Path

import numpy as np

from nextquery.arms import ArmPool
from nextquery.catalogue.catalogue import Catalogue
from nextquery.policies.registry import SERVED
from nextquery.service.engine.engine import Engine
from nextquery.service.exchange.export import FORMATS, export_pages
from nextquery.service.log.store import Store
from nextquery.service.settings import EngineOptions

_OBP = """
import sys, warnings
import numpy as np
import obp
from obp.ope import (DirectMethod, DoublyRobust, InverseProbabilityWeighting, OffPolicyEvaluation,
                     RegressionModel, SelfNormalizedInverseProbabilityWeighting)
from sklearn.linear_model import Ridge
warnings.simplefilter("ignore")
with np.load(sys.argv[1]) as file:
    log = {name: file[name] for name in file.files}
log["n_rounds"], log["n_actions"] = int(log["n_rounds"]), int(log["n_actions"])
top = log["position"] == 0  # one slot: the first entry
log |= {name: log[name][top] for name in ("context", "action", "reward", "pscore")}
log |= {"n_rounds": int(top.sum()), "position": None, "expected_reward": None}
policy = np.zeros((log["n_rounds"], log["n_actions"], 1))
near = (log["context"] @ log["action_context"].T).argmax(axis=1)
policy[np.arange(len(near)), near, 0] = 1.0
model = RegressionModel(n_actions=log["n_actions"], base_model=Ridge(),
                        action_context=log["action_context"])
expected = model.fit_predict(context=log["context"], action=log["action"], reward=log["reward"],
                             n_folds=2, random_state=0)
evaluation = OffPolicyEvaluation(bandit_feedback=log, ope_estimators=[
    InverseProbabilityWeighting(), SelfNormalizedInverseProbabilityWeighting(), DirectMethod(),
    DoublyRobust()])
values = evaluation.estimate_policy_values(action_dist=policy,
                                           estimated_rewards_by_reg_model=expected)
print("obp", obp.__version__, "numpy", np.__version__, "rounds", log["n_rounds"], "actions",
      log["n_actions"], "logged reward %.4f;" % log["reward"].mean(), "most similar query:",
      " ".join("%s %.4f" % (name, value) for name, value in values.items()))
"""
_VW = """
import sys
from importlib.metadata import version
import vowpalwabbit
options = "--cb_explore_adf --epsilon 0.05 --interactions qa --quiet"
blocks = [b.split("\\n") for b in open(sys.argv[1], encoding="utf-8").read().split("\\n\\n") if b]
half = len(blocks) // 2
model = vowpalwabbit.Workspace(options)
for _ in range(2):
    for lines in blocks[:half]:
        model.learn(model.parse(lines))
tried = right = chance = 0.0
for lines in blocks[half:]:
    at = next(i for i, line in enumerate(lines[1:]) if line.startswith("0:"))
    if len(lines) > 2 and lines[1 + at].startswith("0:-1:"):
        chances = model.predict([lines[0], *(line[line.find("|"):] for line in lines[1:])])
        tried, chance = tried + 1, chance + 1 / (len(lines) - 1)
        right += max(range(len(chances)), key=chances.__getitem__) == at
print("vowpalwabbit", version("vowpalwabbit"), "trained on", half, "examples; of", int(tried),
      "later clicks its favourite is the clicked entry in %.3f," % (right / tried),
      "a random one would be in %.3f" % (chance / tried))
"""
_GRU4REC = """
import sys
import pandas as pd
import evaluation, torch
from gru4rec_pytorch import GRU4Rec
kinds = {"SessionId": "int32", "ItemId": "str"}
train, test = (pd.read_csv(path, sep="\\t", dtype=kinds) for path in sys.argv[1:])
model = GRU4Rec(layers=[64], loss="cross-entropy", batch_size=16, n_epochs=5, n_sample=256,
                device=torch.device("cpu"))
model.fit(train, sample_cache_max_size=100000)
recall, mrr = evaluation.batch_eval(model, test, batch_size=4)
print("trained on %d sessions; recall@20 %.4f, MRR@20 %.4f on %d"
      % (train.SessionId.nunique(), recall[20], mrr[20], test.SessionId.nunique()))
"""


def drive(pool: ArmPool, store: Store, sessions: int, seed: int, *, policy: str = SERVED) -> None:
    """Let past sessions ask the engine; a click is the next query, if it was offered."""
    origin = pool.origin
    assert origin is not None
    rng = np.random.default_rng(seed)
    past = origin.sessions.without_repeats()
    chosen = rng.permutation(past.offsets.size - 1)[:sessions]
    options = EngineOptions(exploration=0.2, seed=seed, policy=policy)
    with Engine.start(pool, store, options) as engine:
        for number in chosen:
            arms = [int(arm) for arm in past.of_number(int(number))]
            for arm, following in zip(arms, [*arms[1:], None], strict=True):
                slate = engine.recommend(session_id=f"s{number}", query=pool.texts[arm], m=3)
                engine.delivered(slate.decision_id)
                shown = [entry.arm for entry in slate.recommendations]
                if following is None:
                    engine.feedback(decision_id=slate.decision_id, accepted=None)
                elif following in shown:
                    engine.feedback(decision_id=slate.decision_id, accepted=following)
                else:
                    issued = pool.texts[following]
                    engine.feedback(decision_id=slate.decision_id, accepted=None, issued=issued)


def run(command: list[str], *, cwd: Path | None = None) -> str:
    """Return what a program prints, or why it did not run."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=1800, cwd=cwd)
    lines = (done.stdout if done.returncode == 0 else done.stderr).strip().splitlines()
    return "\n".join(lines) if done.returncode == 0 else f"did not run: {lines[-1]}"


def gru4rec(checkout: Path, file: Path, folder: Path) -> str:
    """Train the official GRU4Rec on the first sessions, and test it on the last.

    One line of it is changed in a copy, so that it runs with NumPy 2.
    """
    header, *rows = file.read_text(encoding="utf-8").splitlines(keepends=True)
    cut = int(0.8 * len({row.split("\t")[0] for row in rows}))
    train, test = folder / "train.tsv", folder / "test.tsv"
    first = [row for row in rows if int(row.split("\t")[0]) <= cut]
    known = {row.split("\t")[1] for row in first}
    last = [row for row in rows if int(row.split("\t")[0]) > cut and row.split("\t")[1] in known]
    counts = {id: sum(1 for row in last if row.split("\t")[0] == id) for id in _ids(last)}
    last = [row for row in last if counts[row.split("\t")[0]] > 1]
    train.write_text("".join([header, *first]), encoding="utf-8")
    test.write_text("".join([header, *last]), encoding="utf-8")
    shutil.copytree(checkout, folder / "gru4rec")
    code = folder / "gru4rec" / "gru4rec_pytorch.py"
    old = "* 2 * sigma - sigma\n"  # float64 since NumPy 2
    code.write_text(code.read_text().replace(old, "* 2 * float(sigma) - float(sigma)\n"))
    command = [sys.executable, "-W", "ignore", "-c", _GRU4REC, str(train), str(test)]
    return run(command, cwd=folder / "gru4rec").splitlines()[-1]


def _ids(rows: list[str]) -> set[str]:
    return {row.split("\t")[0] for row in rows}


def hred(checkout: Path, file: Path, folder: Path) -> str:
    """Prepare the data as HRED does: its dictionary and its sessions of numbers."""
    script = folder / "convert.py"
    shutil.copy(checkout / "convert-text2dict.py", script)
    run([sys.executable, "-W", "ignore", "-m", "lib2to3", "-w", "-n", str(script)])
    shutil.copy(file, folder / "log.ses")
    ranks = ("\t".join("0" for _ in line.split("\t")) for line in file.open(encoding="utf-8"))
    (folder / "log.rnk").write_text("\n".join(ranks) + "\n", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(script), str(folder / "log"), str(folder / "out")],
        capture_output=True,
        text=True,
    )
    return "\n".join(done.stderr.strip().splitlines()[-6:])


def main() -> None:
    """Write a log, export it, and run what is there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pool", type=Path)
    parser.add_argument("--sessions", type=int, default=1500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--obp", default=sys.executable)
    parser.add_argument("--vw", default=sys.executable)
    parser.add_argument("--gru4rec", type=Path)
    parser.add_argument("--hred", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="nextquery-exchange-") as text:
        folder, pool = Path(text), ArmPool.open(options.pool)
        store = Store.open(f"sqlite:///{folder / 'events.db'}")
        drive(pool, store, options.sessions, options.seed)
        files = {}
        for name, format in FORMATS.items():
            files[name] = folder / format.file
            with files[name].open("wb") as sink:
                deque(export_pages(name, store, sink, Catalogue(pool)), maxlen=0)
            print(f"{name}: {files[name].stat().st_size} bytes")
        print(run([options.obp, "-c", _OBP, str(files["obp"])]))
        print(run([options.vw, "-c", _VW, str(files["vw"])]))
        if options.gru4rec:
            print("GRU4Rec:", gru4rec(options.gru4rec, files["gru4rec"], folder))
        if options.hred:
            print("HRED:", hred(options.hred, files["hred"], folder))
        store.close()


if __name__ == "__main__":
    main()
