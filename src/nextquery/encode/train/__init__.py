"""Train a query encoder with torch, as published or on queries that occur together in sessions.

Importing this package is cheap; the modules that train need the extra ``bert``.
"""

from nextquery.encode.train.options import METHODS, TrainOptions

__all__ = ["METHODS", "TrainOptions"]
