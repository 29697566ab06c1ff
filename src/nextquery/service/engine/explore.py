"""The table that people explore by example: a round follows from the table, a seed and the labels.

Nothing is kept between rounds, so any worker can answer any round, also after a restart.
"""

import math
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

from nextquery.errors import Conflict, InvalidInput, NextqueryError
from nextquery.explore import Exploration, Table
from nextquery.explore.table import text
from nextquery.service.settings import Settings

MOST_LABELS = 2000
LONGEST = 500  # characters of a value that are shown
_EXACT = 2**53  # greater whole numbers are not exact in JavaScript
_NAMES = {"--table": "explore_table", "--columns": "explore_columns"}


class ExploredTable:
    """A table in memory, its name and its checksum.

    Parameters
    ----------
    table : of `Table.open`.
    path : its file.
    """

    def __init__(self, table: Table, path: Path) -> None:
        self.name, self.checksum = path.name, table.checksum()
        self._table = table
        self._from = table.source.replace(text(str(path)), text(path.name))
        Exploration(table).samples()  # what the first round would compute is ready

    def learn(
        self, labels: Mapping[int, bool], *, seed: int, samples: int, checksum: str | None
    ) -> Exploration:
        """Learn from all labels of a person: the first half of a round.

        Parameters
        ----------
        labels : whether each row is relevant.
        seed : of every draw.
        samples : rows per round.
        checksum : of the table that was labelled; None if nobody knows.
        """
        if checksum not in (None, self.checksum):
            raise Conflict(
                "the table has changed since these rows were labelled, so their numbers mean other "
                "rows now. Start over."
            )
        past = next((row for row in labels if row >= len(self._table)), None)
        if past is not None:
            raise InvalidInput(
                f"there is no row {past}: the table has {len(self._table):,} rows, and rows count "
                "from 0. Use rows of an answer."
            )
        exploration = Exploration(self._table, samples=samples, seed=seed)
        exploration.add(labels)
        return exploration

    def round(self, exploration: Exploration) -> dict[str, Any]:
        """Return the clause so far and the next rows to label: the second half of a round."""
        where, table = exploration.where(), self._table
        return {
            "name": self.name,
            "table": self.checksum,
            "rows": len(table),
            "columns": table.names,
            "left_out": table.left_out,
            "labels": exploration.labels,
            "relevant": exploration.relevant,
            "where": where,
            "sql": f"SELECT *\n FROM {self._from}\nWHERE {where};",
            "selected": exploration.count(),
            "next": [
                {
                    "row": sample.row,
                    "phase": sample.phase,
                    "values": [shown(sample.values[name]) for name in table.names],
                }
                for sample in exploration.samples()
            ],
        }


def explored(settings: Settings) -> ExploredTable | None:
    """Open the table of the settings; None if they name none."""
    if settings.explore is None:
        return None
    path = Path(settings.explore)
    try:
        table = Table.open(
            path, table=settings.explore_table, columns=settings.explore_columns or None
        )
    except NextqueryError as error:
        message = str(error)
        for option, name in _NAMES.items():
            message = message.replace(option, name)
        raise type(error)(f"explore: {message}") from None
    return ExploredTable(table, path)


def shown(value: Any) -> str | int | float | bool | None:
    """Return a value as JSON has it; what JSON or a browser cannot hold becomes text.

    >>> from datetime import date
    >>> shown(3), shown(2**60), shown(float("inf")), shown(date(2024, 2, 1)), shown(None)
    (3, '1152921504606846976', 'inf', '2024-02-01', None)
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int) and abs(value) <= _EXACT:
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    words = f"{value:f}" if isinstance(value, Decimal) else str(value)
    return words if len(words) <= LONGEST else words[: LONGEST - 1] + "…"
