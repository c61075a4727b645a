"""Draws from a power law over any number of rows in a fixed, small number of steps.

The law is kept as at most 4,096 buckets: one for each of the most popular rows, and beyond those
buckets of neighbouring rows, each less than half a per cent wide, inside which all rows are alike.
A draw picks a bucket by Walker's alias method and a row inside it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from slipstream.data.inputs import Array
from slipstream.data.synthetic.bits import high32

_BITS = 12
_BUCKETS = 1 << _BITS
_FINE = 32 - _BITS  # bits that choose between a bucket and its alias


@dataclass(frozen=True)
class PowerLaw:
    """Row k of `rows` is drawn in proportion to `(k + 1) ** -exponent`."""

    first: Tensor
    width: Tensor
    threshold: Tensor
    alias: Tensor

    @classmethod
    def over(cls, rows: int, exponent: float, device: torch.device) -> PowerLaw:
        """The tables of the law for draws on a device."""
        edges = _edges(rows)
        threshold, alias = _alias(_units(_bucket_masses(edges, exponent)))
        padding = _BUCKETS - (len(edges) - 1)
        first = np.concatenate([edges[:-1], np.zeros(padding, dtype=np.int64)])
        width = np.concatenate([np.diff(edges), np.ones(padding, dtype=np.int64)])
        arrays = (first, width, threshold, alias)
        return cls(*(torch.from_numpy(array).to(device) for array in arrays))

    def draw(self, words: Tensor) -> Tensor:
        """One row for each random word."""
        bucket = words & (_BUCKETS - 1)
        fine = (words >> _BITS) & ((1 << _FINE) - 1)
        alias = self.alias.index_select(0, bucket)
        stays = fine < self.threshold.index_select(0, bucket)
        bucket = alias + (bucket - alias) * stays
        inside = high32(words) * self.width.index_select(0, bucket)
        return self.first.index_select(0, bucket) + (inside >> 32)


def _edges(rows: int) -> Array:
    """Where the buckets begin, and where the last one ends."""
    if rows <= _BUCKETS:
        return np.arange(rows + 1, dtype=np.int64)
    alone = _BUCKETS // 2
    steps = np.arange(1, alone + 1) / alone
    tail = np.rint(alone * (rows / alone) ** steps).astype(np.int64)
    tail = np.maximum(tail, alone + np.arange(1, alone + 1))
    tail[-1] = rows
    return np.concatenate([np.arange(alone + 1, dtype=np.int64), np.minimum(tail, rows)])


def _bucket_masses(edges: Array, exponent: float) -> Array:
    """The share of draws that each bucket takes, up to a constant."""
    first, last = edges[:-1].astype(np.float64), edges[1:].astype(np.float64)
    alone = (first + 1) ** -exponent
    low, high = first + 0.5, last + 0.5
    if abs(exponent - 1) < 1e-9:
        together = np.log(high / low)
    else:
        together = (high ** (1 - exponent) - low ** (1 - exponent)) / (1 - exponent)
    return np.where(last - first == 1, alone, together)


def _units(masses: Array) -> Array:
    """The masses as whole units that add up to 2^32, at least one each."""
    units = np.maximum(1, np.rint(masses / masses.sum() * 2.0**32)).astype(np.int64)
    units[0] += 2**32 - units.sum()
    return units


def _alias(units: Array) -> tuple[Array, Array]:
    """Walker's tables, exact in whole units: each of the 4,096 cells holds 2^20 of them."""
    full = 1 << _FINE
    left = np.zeros(_BUCKETS, dtype=np.int64)
    left[: len(units)] = units
    threshold, alias = np.full(_BUCKETS, full), np.arange(_BUCKETS)
    small = [int(i) for i in np.flatnonzero(left < full)]
    large = [int(i) for i in np.flatnonzero(left > full)]
    while small and large:
        cell, donor = small.pop(), large[-1]
        threshold[cell], alias[cell] = left[cell], donor
        left[donor] -= full - left[cell]
        if left[donor] <= full:
            large.pop()
            if left[donor] < full:
                small.append(donor)
    return threshold, alias
