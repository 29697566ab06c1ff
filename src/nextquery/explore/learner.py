"""What the labels say: the relevant boxes of the simplest decision tree that explains them.

One tree for all labels is best if they are spread over the table. If most of them are close to a
few regions, its first splits cut through those regions. So one tree per region is grown too, of its
relevant rows and all irrelevant ones. Both explain every label; the one with fewer boxes is taken.
"""

from collections.abc import Sequence

import numpy as np

from nextquery.explore.boxes import Box, merged
from nextquery.explore.columns import Column
from nextquery.explore.rules import rules
from nextquery.explore.space import Flags, Rows
from nextquery.explore.tree import relevant_boxes


def learn(
    columns: Sequence[Column], rows: Rows, relevant: Flags, regions: Sequence[Rows]
) -> list[Box]:
    """Return the boxes that are relevant.

    Parameters
    ----------
    columns : of the table.
    rows, relevant : the labelled rows, and whether each is relevant.
    regions : the rows of each region.

    >>> x = Column("x", "DOUBLE", "number", np.arange(10.0))
    >>> rows, relevant = np.array([0, 4, 5, 9]), np.array([False, True, True, False])
    >>> learn([x], rows, relevant, [rows[1:3]])
    [{0: Range(above=2.0, most=6.0, nulls=False)}]
    """
    if not relevant.any():
        return []
    together = merged(_boxes(columns, rows, relevant), columns)
    one_by_one = []
    for region in regions:
        with_others = np.concatenate([region, rows[~relevant]])
        one_by_one += _boxes(columns, with_others, np.arange(len(with_others)) < len(region))
    apart = merged(one_by_one, columns)
    return together if len(together) < len(apart) else apart


def _boxes(columns: Sequence[Column], rows: Rows, relevant: Flags) -> list[Box]:
    return rules(relevant_boxes(columns, rows, relevant), columns, rows, relevant)
