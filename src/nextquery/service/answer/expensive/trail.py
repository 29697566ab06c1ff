"""Placing the earlier queries of a map: each is cleaned and encoded in a step of the lane."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future

from nextquery.catalogue.catalogue import Place
from nextquery.service.answer.expensive.lane import Lane
from nextquery.service.answer.requests.kinds import MapRequest


def place_trail(
    lane: Lane,
    place: Callable[[str], Place],
    texts: Sequence[str],
    request: MapRequest,
    *,
    then: Callable[[MapRequest], None],
) -> None:
    """Fill the trail of a request step by step, then pass the request on.

    Parameters
    ----------
    lane : where the steps run; it may refuse the first one, and then nothing has happened.
    place : looks one query up.
    texts : the earlier queries.
    request : gets the places, or the error of a step.
    then : called with the complete request.
    """

    def step() -> None:
        if len(request.trail) < len(texts):
            request.trail.append(place(texts[len(request.trail)]))
            go_on(always=True)
        else:
            then(request)

    def go_on(*, always: bool) -> None:
        lane.submit(step, always=always).add_done_callback(pass_error_on)

    def pass_error_on(done: "Future[None]") -> None:
        error = done.exception()
        if error is not None and not request.future.done():
            request.future.set_exception(error)

    go_on(always=False)
