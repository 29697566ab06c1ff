"""Make docs/many-armed.md and its two figures, from the registry and from result files alone.

    python -m benchmarks.many_armed_page [RUN …]

RUN are folders of anchored replays; without them, the copies of their averages in docs/figures are
used. The result files are those of `benchmarks.many_armed` and `benchmarks.many_armed_speed`.
"""

import csv
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from benchmarks.many_armed import OUT, rows_of
from benchmarks.many_armed_figures import ANCHORED, draw_anchored, draw_worlds, panels
from benchmarks.many_armed_speed import OUT as SPEED
from benchmarks.many_armed_worlds import WORLDS
from nextquery.policies.registry import MANY_ARMED, described
from nextquery.research.replay.results import read_rows

PAGE = Path("docs/many-armed.md")
TEXT = Path(__file__).with_suffix(".md")
"""The words of the page, with a place for each table."""


def main() -> None:
    if sys.argv[1:]:
        keep_anchored([Path(run) for run in sys.argv[1:]])
    rows = rows_of(OUT)
    draw_worlds(rows, Path("docs/figures/many-armed-worlds.png"))
    draw_anchored(Path("docs/figures/many-armed-anchored.png"))
    made = {"algorithms": algorithms(), "anchored": anchored(), "speeds": speeds()}
    page = TEXT.read_text(encoding="utf-8")
    for name in re.findall(r"\{\{(.+)\}\}", page):
        page = page.replace("{{" + name + "}}", made.get(name) or worlds(name, rows))
    PAGE.write_text(page, encoding="utf-8")
    print(f"wrote {PAGE}")


def keep_anchored(runs: Iterable[Path]) -> None:
    """Copy the last round of every cell of some replays into one file."""
    columns = ["selection", "policy", "k", "anchors", "round"]
    columns += ["per_round_regret", "ci_low", "ci_high", "floor"]
    with ANCHORED.open("w", newline="", encoding="utf-8") as lines:
        writer = csv.DictWriter(lines, columns, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        for run in runs:
            rows = read_rows(run / "results.csv")
            last = max(int(row["round"]) for row in rows)
            writer.writerows(row for row in rows if int(row["round"]) == last)


def algorithms() -> str:
    """The table of the many-armed policies."""
    known = [row for row in described() if row["name"] in MANY_ARMED]
    return (
        table(
            ("name", "assumes", "regret", "reference"),
            [
                (f"`{row['name']}`", row["assumptions"], row["regret"], row["reference"])
                for row in known
            ],
        )
        + "\n\nThe order of rewards matters to "
        + ", ".join(f"`{row['name']}`" for row in known if row["order_matters"])
        + "."
    )


def worlds(group: str, rows: Sequence[dict[str, str]]) -> str:
    """The tables of the worlds of one paper."""
    parts = []
    for world in WORLDS:
        own = [row for row in rows if row["world"] == world.name]
        if world.name.partition("-")[0] == group and own:
            own.sort(key=lambda row: float(row["mean"]))
            head = ("policy", "failures" if world.means is None else "regret", "games")
            parts.append(f"{world.title[0].upper()}{world.title[1:]}; T = {world.rounds:,}:")
            parts.append(table(head, [result(row) for row in own]))
    return "\n\n".join(parts)


def result(row: dict[str, str]) -> tuple[str, str, str]:
    """Return the cells of one result: its policy, its mean with the interval, its games."""
    name = f"`{row['policy']}`" if row["policy"] in MANY_ARMED else row["policy"]
    mean, low, high = (f"{float(row[column]):,.0f}" for column in ("mean", "ci_low", "ci_high"))
    return name, f"{mean} [{low}, {high}]", f"{int(row['games']):,}"


def anchored() -> str:
    """The tables of the anchored experiments: one for each set of candidates."""
    parts = []
    for title, own in panels(read_rows(ANCHORED)):
        body = [
            (
                f"`{r['policy']}`",
                f"{float(r['per_round_regret']):.3f} [{float(r['ci_low']):.3f}, "
                f"{float(r['ci_high']):.3f}]",
            )
            for r in own
        ]
        floor = float(own[0]["floor"])
        parts += [
            f"{title[0].upper()}{title[1:]}, {own[0]['anchors']} anchors:",
            table(("policy", f"per-round regret at t = {own[0]['round']}"), body),
            f"No policy can be below {floor:.3f} here: the other anchors have no target among "
            "the candidates.",
        ]
    return "\n\n".join(parts)


def speeds() -> str:
    """The tables of the speed of games and of the linear programme."""
    rows = rows_of(SPEED)
    fast = [(f"`{r['policy']}`", f"{float(r['figure']) / 1e6:.0f} million")
            for r in rows if r["what"] == "rounds a minute"]  # fmt: skip
    slow = [(r["arms"], f"{1000 * float(r['figure']):,.0f} ms", f"{int(r['arms']) ** 2:,}",
             f"{1e6 * float(r['figure']) / 3600:,.1f} hours")
            for r in rows if r["what"] == "seconds a choice"]  # fmt: skip
    return (
        table(("policy", "rounds a minute, 100 arms"), fast)
        + "\n\n"
        + table(("arms", "one choice of `oslb`", "coefficients", "a million choices"), slow)
    )


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
