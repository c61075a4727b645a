"""The largest value of each element; where rows tie, the first of them has the gradient."""

from torch import Tensor

from slipstream.tables.pooling.pooling import Pooling


def _largest(rows: Tensor, present: Tensor) -> Tensor:
    return rows.masked_fill(~present.unsqueeze(2), float("-inf")).max(dim=1).values


POOLING = Pooling(_largest)
