"""Training a query encoder with torch: as published, and on what sessions ask together.

Importing this package is light; `run` and what it uses need the extra ``bert``.
"""

from nextquery.encode.train.options import METHODS, TrainOptions

__all__ = ["METHODS", "TrainOptions"]
