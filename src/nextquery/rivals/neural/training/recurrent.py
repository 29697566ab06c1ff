"""A recurrent layer for training that is one node of ONNX, for rows of any length.

torch's exporter unrolls a recurrent layer over the length of its example. So while exporting, this
one puts a GRU node of ONNX into the graph instead.
"""

from typing import Any

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

_OPSET = 18


class Recurrent(nn.Module):  # type: ignore[misc]
    """One layer of a GRU with the batch first.

    Parameters
    ----------
    inputs : width of the rows that it reads.
    width : width of its state, in each direction.
    both : whether it also reads from the end.
    """

    def __init__(self, inputs: int, width: int, *, both: bool = False) -> None:
        super().__init__()
        self.gru = nn.GRU(inputs, width, batch_first=True, bidirectional=both)
        self.directions = 2 if both else 1

    def forward(self, rows: Any, sizes: Any = None, first: Any = None) -> tuple[Any, Any]:
        """Return the state after every row, and the last one of each direction, side by side.

        Parameters
        ----------
        rows : (batch, length, inputs); padded at the end.
        sizes : number of rows of each that are no padding, at least 1; None: all. A layer that
            reads one way does not need it unless its last state matters.
        first : the state before the first row, (batch, width), one way only; None: zeros.
        """
        if torch.onnx.is_in_onnx_export():
            return self._exported(rows, sizes, first)
        before = None if first is None else first[None].contiguous()
        if sizes is None:
            every, last = self.gru(rows, before)
        else:
            packed = pack_padded_sequence(rows, sizes.cpu(), batch_first=True, enforce_sorted=False)
            every, last = self.gru(packed, before)
            every, _ = pad_packed_sequence(every, batch_first=True, total_length=rows.shape[1])
        return every, last.transpose(0, 1).flatten(1)

    def _exported(self, rows: Any, sizes: Any, first: Any) -> tuple[Any, Any]:
        width, ways = self.gru.hidden_size, self.directions
        batch, length = rows.shape[0], rows.shape[1]
        biases = torch.cat([self._gates("bias_ih_l0"), self._gates("bias_hh_l0")], dim=1)
        every, last = torch.onnx.ops.symbolic_multi_out(
            "GRU",
            (
                *(rows.transpose(0, 1), self._gates("weight_ih_l0"), self._gates("weight_hh_l0")),
                *(biases, None if sizes is None else sizes.to(torch.int32)),
                None if first is None else first[None],
            ),
            {
                "hidden_size": width,
                "linear_before_reset": 1,  # as torch does
                "direction": "forward" if ways == 1 else "bidirectional",
            },
            dtypes=(rows.dtype, rows.dtype),
            shapes=((length, ways, batch, width), (ways, batch, width)),
            version=_OPSET,
        )
        every = every.permute(2, 0, 1, 3).reshape(batch, length, ways * width)
        return every, last.permute(1, 0, 2).reshape(batch, ways * width)

    def _gates(self, name: str) -> Any:
        """Return weights of all directions, with the gates in the order of ONNX."""
        found = []
        for way in ("", "_reverse")[: self.directions]:
            reset, update, new = getattr(self.gru, name + way).chunk(3)
            found.append(torch.cat([update, reset, new]))
        return torch.stack(found)
