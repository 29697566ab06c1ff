"""The device to train on, its precision, and what to say when it has too little memory."""

import contextlib
import functools
from collections.abc import Iterator
from typing import Any

import torch

from nextquery.errors import InvalidInput


def device_for(wanted: str, precision: str = "float32") -> tuple[Any, Any]:
    """Return the device to train on, and the context that sets the precision of products.

    >>> device_for("cpu")[0].type
    'cpu'
    """
    available = torch.cuda.is_available()
    if wanted == "cuda" and not available:
        raise InvalidInput(
            "device is cuda, but torch sees no GPU here "
            f"(torch {torch.__version__}). Use --device cpu or auto, or install a build of torch "
            "for CUDA and a driver."
        )
    device = torch.device("cuda" if available and wanted != "cpu" else "cpu")
    half = precision == "bfloat16" or (precision == "auto" and available)
    half = half and (device.type == "cuda" or precision == "bfloat16")
    if not half:
        return device, contextlib.nullcontext
    return device, functools.partial(torch.autocast, device.type, torch.bfloat16)


@contextlib.contextmanager
def enough_memory(smaller_steps: str) -> Iterator[None]:
    """Turn an out-of-memory error, of the CPU or the GPU, into one with advice.

    `smaller_steps` names the options that make a step smaller, with their values.
    """
    try:
        yield
    except RuntimeError as error:
        on_gpu = isinstance(error, torch.OutOfMemoryError)
        if not on_gpu and "can't allocate memory" not in str(error):
            raise
        details = ". ".join(str(error).split(". ")[:3])  # the rest lists all processes on the GPU
        raise InvalidInput(
            f"not enough {'GPU ' * on_gpu}memory: {details}. Stop other work and run the same "
            "command again, which continues from the last checkpoint, if any. Or use smaller steps "
            f"({smaller_steps}), a smaller model{' or --device cpu' * on_gpu}, which start from "
            "the beginning."
        ) from error
