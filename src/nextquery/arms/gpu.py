"""`nearest` for large batches of anchors on a GPU, with plain torch (extra ``gpu``).

A half-precision product proposes arms. The few proposed arms are scored on the GPU by definition
(float64, one coordinate after another), so ids, order and scores are the same as on the CPU.

To propose arms, the columns of the product are taken in groups of 32, far apart, so that memory is
read in order. The k-th best of the groups' best products is a lower bound for the k-th best arm. So
only groups that reach it matter, and of their arms only those that reach the k-th best among them.
"""

import math
from collections.abc import Iterator, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from nextquery.arms.kernels import Ids, Vectors
from nextquery.arms.scan import Found, Rows, error_bound
from nextquery.checks import installed
from nextquery.errors import InvalidInput

MANY, LARGE = 1024, 1 << 31
"""From this many anchors, and pairs of anchor and arm, ``auto`` searches on a GPU."""
GROUP = 32
_SHARE = 0.25  # of the free memory for one product


def use_gpu(device: str, anchors: int, arms: int) -> bool:
    """Return whether to search on a GPU: if it is named, or with ``auto`` if it is worthwhile."""
    if device == "auto":
        return anchors >= MANY and anchors * arms >= LARGE and _cuda_available()
    if device != "cpu" and not device.startswith("cuda"):
        raise InvalidInput(f"device must be 'auto', 'cpu' or 'cuda'; received {device!r}.")
    return device != "cpu"


def on_device(current: "DeviceArms | None", rows: Rows, removed: Ids, device: str) -> "DeviceArms":
    """Return the arms on a device: the current copy if it is up to date, otherwise a new one."""
    device = "cuda" if device == "auto" else device
    state = (len(rows), len(removed))
    if current is not None and current.name == device and current.state == state:
        return current
    return DeviceArms(rows.whole(), removed, device)


def _cuda_available() -> bool:
    return find_spec("torch") is not None and bool(import_module("torch").cuda.is_available())


class DeviceArms:
    """The vectors of a pool on a device, in half precision for products and single for scores.

    Parameters
    ----------
    rows : the unit vectors.
    removed : ids that are never returned.
    device : ``cuda``, or any other torch device.
    half : whether products use half precision; by default on a GPU.
    """

    def __init__(
        self, rows: Vectors, removed: Ids, device: str = "cuda", *, half: bool | None = None
    ) -> None:
        installed("gpu", "torch")
        self.torch = import_module("torch")
        self.device, self.name = self._device(device), device
        self.state = (len(rows), len(removed))
        self.half = self.device.type == "cuda" if half is None else half
        self.rows = self.torch.tensor(rows, device=self.device)  # a copy: the file may be mapped
        self.fast = self.rows.half() if self.half else self.rows
        self.removed = self.torch.tensor(removed, device=self.device)
        self.slack = half_error_bound(rows.shape[1]) if self.half else error_bound(rows.shape[1])

    def _device(self, name: str) -> Any:
        if name.startswith("cuda") and not self.torch.cuda.is_available():
            raise InvalidInput(
                f"device must be one that torch can use here; received {name!r}, but torch sees no "
                "GPU. Install torch with CUDA support on a machine with a GPU, or use 'cpu'."
            )
        return self.torch.device(name)

    def nearest(
        self, anchors: Vectors, k: int, exclude: Sequence[Ids] = (), low: ArrayLike = -np.inf
    ) -> list[Found]:
        """Return the k most similar arms of every anchor, with a similarity of at least `low`."""
        least = np.broadcast_to(np.asarray(low, np.float64), len(anchors))
        found: list[Found] = []
        for part in self._chunks(len(anchors)):
            hidden = exclude[part] if len(exclude) else ()
            chunk = self.torch.tensor(anchors[part], device=self.device)
            ids, scores = (
                x.cpu().numpy() for x in self._chunk(chunk, min(k, len(self.rows)), hidden)
            )
            counts = ((ids >= 0) & (scores >= least[part, None])).sum(axis=1).tolist()
            rows = zip(ids, scores, counts, strict=True)
            found.extend(Found(arms[:count], values[:count]) for arms, values, count in rows)
        return found

    def _chunks(self, anchors: int) -> Iterator[slice]:
        free = 1 << 30
        if self.device.type == "cuda":
            free = self.torch.cuda.mem_get_info(self.device)[0]
        size = max(1, int(free * _SHARE) // (len(self.rows) * self.fast.element_size()))
        size = min(size, 8192)
        yield from (slice(i, min(i + size, anchors)) for i in range(0, anchors, size))

    def _chunk(self, anchors: Any, k: int, exclude: Sequence[Ids]) -> tuple[Any, Any]:
        products = self._products(anchors, exclude)
        width = k + k // 4 + GROUP
        while True:  # repeats only if very many arms are nearly as good, which is rare
            ids, complete = self._propose(products, k, width)
            if complete:
                return self._settle(ids, anchors, products, k)
            width *= 4

    def _products(self, anchors: Any, exclude: Sequence[Ids]) -> Any:
        torch, n = self.torch, len(self.rows)
        shape = (len(anchors), -(-n // (8 * GROUP)) * 8 * GROUP)  # rows start where reads are fast
        products = torch.empty(shape, dtype=self.fast.dtype, device=self.device)
        torch.matmul(anchors.to(self.fast.dtype), self.fast.T, out=products[:, :n])
        products[:, n:] = -torch.inf
        products[:, self.removed] = -torch.inf
        if len(exclude):
            row = np.repeat(np.arange(len(exclude)), [len(ids) for ids in exclude])
            ids = np.concatenate([np.empty(0, np.int64), *exclude])
            hidden = torch.tensor(row, device=self.device), torch.tensor(ids, device=self.device)
            products.index_put_(hidden, products.new_tensor(-torch.inf))
        return products

    def _propose(self, products: Any, k: int, width: int) -> tuple[Any, bool]:
        """Return ids of the `width` best products of each row, and whether they are enough."""
        grouped = products.view(len(products), GROUP, -1)
        groups, all_groups = self._best(grouped.amax(dim=1), k, width)
        members = self.torch.take_along_dim(grouped, groups[:, None, :], dim=2).flatten(1)
        places, all_places = self._best(members, k, width)
        member, place = places // groups.shape[1], places % groups.shape[1]
        group = self.torch.take_along_dim(groups, place, dim=1)
        return member * grouped.shape[2] + group, all_groups and all_places

    def _best(self, values: Any, k: int, width: int) -> tuple[Any, bool]:
        """Return places of the largest values, and whether they include all within the slack."""
        width, k = min(width, values.shape[1]), min(k, values.shape[1])
        best, places = values.topk(width, dim=1)
        reach = best[:, k - 1].double() - 2 * self.slack
        left_out = (best[:, -1].double() >= reach) & (best[:, -1] > -self.torch.inf)
        return places, width == values.shape[1] or not bool(left_out.any())

    def _settle(self, ids: Any, anchors: Any, products: Any, k: int) -> tuple[Any, Any]:
        """Score the proposed arms by definition, and order them by (−similarity, id)."""
        torch = self.torch
        ids = ids.sort(dim=1).values
        excluded = torch.take_along_dim(products, ids, dim=1) == -torch.inf
        rows = self.rows[ids.clamp(max=len(self.rows) - 1)].permute(2, 0, 1).contiguous()
        scores = torch.zeros(ids.shape, dtype=torch.float64, device=self.device)
        for coordinate, of_anchor in zip(rows, anchors.double().T, strict=True):
            scores += coordinate.double() * of_anchor[:, None]
        scores[excluded] = -torch.inf
        ids = torch.where(excluded, -1, ids)
        scores, order = scores.sort(dim=1, descending=True, stable=True)
        return torch.take_along_dim(ids, order, dim=1)[:, :k], scores[:, :k]


def half_error_bound(d: int) -> float:
    """Return how far a half-precision product of two unit rows can be from the score.

    Both rows are rounded (2⁻¹¹ of their length, 2⁻²⁵ per coordinate near zero), sums are in float32
    (2⁻²¹ per coordinate is more than they lose), and the result is rounded once more.
    """
    rounding = 2.0**-11 + 2.0**-25 * math.sqrt(d)
    return 2 * rounding * (1 + rounding) + d * 2.0**-21 + 2.0**-11
