"""Run an ONNX network on the CPU, without torch."""

from typing import Any

from nextquery.checks import installed


def runner(network: bytes) -> Any:
    """Return the function ``run(outputs, inputs)`` of an ONNX network.

    It uses one thread: sums split over threads would differ in the last bits on a machine with
    another number of cores.
    """
    installed("trained", "onnxruntime")
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(network, options, providers=["CPUExecutionProvider"]).run
