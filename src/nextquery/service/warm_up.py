"""Answer once before the first visitor, who would otherwise wait for compilation."""

from contextlib import suppress

from nextquery.errors import NextqueryError
from nextquery.segments import segment_of, text_of
from nextquery.service.engine.engine import Engine


def warm_up(engine: Engine) -> None:
    """Make a forecast, which records nothing: kernels are compiled or loaded, memory is read.

    On a machine that has never served this takes seconds; later it takes as long as one answer.
    What fails here, such as a shard that is not back yet, is reported when somebody asks.
    """
    texts = engine.catalogue.pool.texts
    if texts:
        with suppress(NextqueryError):
            query, segment = text_of(texts[0]), segment_of(texts[0])
            engine.forecast(session_id="warm-up", query=query, m=1, segment=segment)
