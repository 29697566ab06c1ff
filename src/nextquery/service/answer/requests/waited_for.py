"""Turns a method that returns a future into one that waits for its answer."""

from collections.abc import Callable
from concurrent.futures import Future
from typing import Concatenate, ParamSpec, TypeVar

Self = TypeVar("Self")
Arguments = ParamSpec("Arguments")
Answer = TypeVar("Answer")


def waited_for(
    submit: Callable[Concatenate[Self, Arguments], "Future[Answer]"],
) -> Callable[Concatenate[Self, Arguments], Answer]:
    """Return a method that calls `submit` and waits for its answer."""

    def wait(self: Self, /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Answer:
        return submit(self, *args, **kwargs).result()

    wait.__doc__ = f"Call `{submit.__name__}` and wait for the answer."
    return wait
