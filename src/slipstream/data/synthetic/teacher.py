"""The planted truth of built-in data: what makes an input positive, and how likely it is.

An input's log-odds are the sum of effects of its rows, of pairs of its rows (products of hidden
vectors), and of its dense values; its label is drawn with that probability. All in whole numbers,
log-odds in units of 2^-16, so that the truth has the same bits everywhere.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from slipstream.data.inputs import Array
from slipstream.data.synthetic.bits import key, low32, words
from slipstream.data.synthetic.world import DENSE_VALUES, RawInputs, RawList, World

_UNIT = 16  # bits behind the point of log-odds
_BINS = 1 << 14  # probabilities: log-odds from -8 to 8 in steps of 1/1024
_SAMPLE = 1 << 16
# Standard deviation of each part of the log-odds.
_SIZES = {"rows": 1.1, "pairs": 0.8, "dense": 0.6}
_HIDDEN = 4


@dataclass
class Tally:
    """Labels by true probability: enough for exact scores of whoever knows the truth."""

    positives: Array
    inputs: Array

    @classmethod
    def empty(cls) -> Tally:
        """No inputs yet."""
        return cls(np.zeros(_BINS, dtype=np.int64), np.zeros(_BINS, dtype=np.int64))

    def add(self, bins: Tensor, labels: Tensor) -> None:
        """Count some inputs."""
        self.inputs += torch.bincount(bins, minlength=_BINS).cpu().numpy()
        positive = bins[labels.bool()]
        self.positives += torch.bincount(positive, minlength=_BINS).cpu().numpy()

    def scores(self) -> dict[str, float] | None:
        """AUC (ties count half) and logloss of the true probabilities; None without both labels."""
        positives, negatives = self.positives, self.inputs - self.positives
        n_positive, n_negative = int(positives.sum()), int(negatives.sum())
        if not n_positive or not n_negative:
            return None
        below = np.cumsum(negatives) - negatives
        twice_won = int((positives * (2 * below + negatives)).sum())
        chance = chances()
        loss = -(positives * np.log(chance) + negatives * np.log1p(-chance)).sum()
        return {
            "auc": twice_won / (2 * n_positive * n_negative),
            "logloss": float(loss / (n_positive + n_negative)),
        }


class Teacher:
    """Knows the probability of every input of a world.

    Args:
        world: Where the inputs come from.
        positives: The share of positive labels wanted.
    """

    def __init__(self, world: World, positives: float) -> None:
        self.world = world
        self._thresholds = torch.from_numpy(_thresholds()).to(world.device)
        self._dense = _dense_effects(world)
        parts = self._sample(min(world.rows, _SAMPLE))
        self._scales = {name: _scale(part, _SIZES[name]) for name, part in parts.items()}
        self._bias = self._find_bias(self._scaled(parts), positives)

    def teach(self, inputs: RawInputs) -> tuple[Tensor, Tensor]:
        """The labels of some inputs, and the bin of each one's true probability."""
        bins = self._bins(self._scaled(self._parts(inputs)) + self._bias)
        chance = self._thresholds.index_select(0, bins)
        drawn = low32(words(key(self.world.seed, "label"), inputs.rows))
        return (drawn < chance).float(), bins

    def _sample(self, n: int) -> dict[str, Tensor]:
        """The parts of the log-odds of n inputs from all over the log."""
        rows = self.world.rows
        chunks = list(self.world.map(lambda i: self._parts(self.world.draw(i * rows // n)), 0, n))
        return {name: torch.cat([chunk[name] for chunk in chunks]) for name in chunks[0]}

    def _parts(self, inputs: RawInputs) -> dict[str, Tensor]:
        total = torch.zeros_like(inputs.rows)
        vectors = []
        for column in self.world.shape.columns:
            raw = inputs.columns[column.name]
            values, moment = _flat(raw, inputs.moment)
            word = self._words(column.table, "effect", values, moment)
            effect = sum(((word >> shift) & 0xFFFF for shift in (16, 32, 48)), word & 0xFFFF)
            strength = 32 + (key(self.world.seed, "strength", column.name) & 63)
            total += (_mean(effect - 2 * 0xFFFF, raw) * strength) >> 6
            if column.mixes:
                word = self._words(column.table, "hidden", values, moment)
                hidden = [((word >> 16 * k) & 0xFF) - 128 for k in range(_HIDDEN)]
                vectors.append([_mean(component, raw) for component in hidden])
        parts = {"rows": total}
        if vectors:
            parts["pairs"] = _pairs(vectors)
        if inputs.dense:
            parts["dense"] = self._dense_part(inputs)
        return parts

    def _words(self, table: str, what: str, values: Tensor, moment: Tensor) -> Tensor:
        """A random word for each value: another one once the teacher has changed its mind."""
        seed, change = self.world.seed, self.world.drift.teacher
        before, after = (key(seed, what, table, version) for version in range(2))
        if change.kind == "none":
            return words(before, values)
        version = change.version(moment, words(key(seed, "change", table), values))
        return torch.where(version == 1, words(after, values), words(before, values))

    def _dense_part(self, inputs: RawInputs) -> Tensor:
        change = self.world.drift.teacher
        total = torch.zeros_like(inputs.rows)
        for number, counts in enumerate(inputs.dense):
            values = counts + 1
            switch = torch.full_like(inputs.rows, key(self.world.seed, "dense switch", number))
            version = change.version(inputs.moment, switch)
            total += self._dense[number].index_select(0, values + version * (DENSE_VALUES + 1))
        return total

    def _scaled(self, parts: dict[str, Tensor]) -> Tensor:
        total = torch.zeros_like(parts["rows"])
        for name, part in parts.items():
            total += (part * self._scales[name]) >> _UNIT
        return total

    def _bins(self, log_odds: Tensor) -> Tensor:
        return ((log_odds >> (_UNIT - 10)) + _BINS // 2).clamp_(0, _BINS - 1)

    def _find_bias(self, log_odds: Tensor, positives: float) -> int:
        low, high = -8 << _UNIT, 8 << _UNIT
        wanted = round(positives * 2**32)
        while high - low > 1:
            middle = (low + high) // 2
            chances = self._thresholds.index_select(0, self._bins(log_odds + middle))
            if int(chances.sum()) < wanted * len(log_odds):
                low = middle
            else:
                high = middle
        return high


def dense_values() -> Array:
    """The packed value of each dense count, shifted by one: log(x + 1), and 0 for missing."""
    logs = [0.0] + [math.log1p(count) for count in range(DENSE_VALUES)]
    return np.array(logs, dtype=np.float32)


def chances() -> Array:
    """The probability of each bin."""
    return np.asarray(_thresholds() / 2.0**32)


def _thresholds() -> Array:
    """The probability of each bin, in units of 2^-32."""
    centres = [(bin + 0.5 - _BINS // 2) / 1024 for bin in range(_BINS)]
    return np.array([round(2**32 / (1 + math.exp(-x))) for x in centres], dtype=np.int64)


def _dense_effects(world: World) -> list[Tensor]:
    """For each dense column the effect of every count, missing first, before and after a change."""
    logs = np.array([math.log1p(count) for count in range(DENSE_VALUES)])
    tables = []
    for number in range(world.shape.dense):
        versions = []
        for version in range(2):
            word = key(world.seed, "dense effect", number, version)
            slope, bend = (((word >> shift) & 0xFFFF) - 0x8000 for shift in (0, 16))
            effects = slope * (logs - 1) + bend * np.abs(logs - 2) / 2
            # Missing is packed as 0, so it must mean what 0 means: else no model could know.
            versions.append(np.concatenate([effects[:1], effects]))
        table = np.rint(np.concatenate(versions)).astype(np.int64)
        tables.append(torch.from_numpy(table).to(world.device))
    return tables


def _flat(raw: Tensor | RawList, moment: Tensor) -> tuple[Tensor, Tensor]:
    """The values of a column one after the other, and the moment of each."""
    if isinstance(raw, RawList):
        return raw.values.reshape(-1), moment.repeat_interleave(raw.values.shape[1])
    return raw, moment


def _mean(effects: Tensor, raw: Tensor | RawList) -> Tensor:
    """The mean effect over each input's values; 0 for an empty list."""
    if not isinstance(raw, RawList):
        return effects
    sums = (effects.reshape(raw.values.shape) * raw.mask).sum(dim=1)
    return sums * (2**16 // raw.lengths.clamp(min=1)) >> 16


def _pairs(vectors: list[list[Tensor]]) -> Tensor:
    """The sum over pairs of columns of the product of their hidden vectors."""
    total = torch.zeros_like(vectors[0][0])
    for components in zip(*vectors, strict=True):
        together = torch.zeros_like(total)
        for component in components:
            together += component
            total -= component * component
        total += together * together
    return total


def _scale(part: Tensor, size: float) -> int:
    """The factor, in units of 2^-16, that gives a part its standard deviation."""
    n = len(part)
    mean = int(part.sum()) / n
    variance = int((part**2).sum()) / n - mean**2
    if variance <= 0:
        return 0
    return round(size * 2 ** (2 * _UNIT) / math.sqrt(variance))
