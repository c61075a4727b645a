"""The planted truth of built-in data: how likely each example is to be positive.

The log-odds of an example are the sum of effects of its rows, of pairs of its rows (products of
hidden vectors) and of its dense values; its label is drawn with that probability. Effects are
whole numbers, whose sums have the same bits in any order, and log-odds are rounded to bins.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from slipstream.arrays import Array
from slipstream.data.synthetic.draws import key, random_words, shares
from slipstream.data.synthetic.generator import DENSE_VALUES, ExampleGenerator, RawExamples

_BINS = 1 << 14  # log-odds from -8 to 8 in steps of 1 / 1024
_SAMPLE = 1 << 16
_DEVIATIONS = {"rows": 1.1, "pairs": 0.8, "dense": 0.6}  # standard deviations of the log-odds
_HIDDEN = 4
CHANCES: Array = 1 / (1 + np.exp((_BINS / 2 - np.arange(_BINS) - 0.5) / 1024))
"""The probability of each bin."""


class OracleScores:
    """Counts labels by true probability: enough for the exact scores of the truth."""

    def __init__(self) -> None:
        self._labels = np.zeros((2, _BINS), dtype=np.int64)

    def add(self, bins: Array, labels: Array) -> None:
        """Count some examples by the bins of their probabilities."""
        for label in (0, 1):
            self._labels[label] += np.bincount(bins[labels == label], minlength=_BINS)

    def scores(self) -> dict[str, float] | None:
        """AUC (ties count half) and logloss of the true probabilities; None without both labels."""
        negatives, positives = self._labels
        pairs = int(positives.sum()) * int(negatives.sum())
        if not pairs:
            return None
        below = np.cumsum(negatives) - negatives
        twice_won = int((positives * (2 * below + negatives)).sum())
        loss = -(positives * np.log(CHANCES) + negatives * np.log1p(-CHANCES)).sum()
        return {"auc": twice_won / (2 * pairs), "logloss": float(loss / self._labels.sum())}


class Labels(NamedTuple):
    """The labels of some examples, and the bins of their true probabilities."""

    labels: Array
    bins: Array


class Teacher:
    """Labels the examples of a generator, with the wanted share of positives."""

    def __init__(self, generator: ExampleGenerator, positives: float) -> None:
        self._generator, self._seed = generator, generator.seed
        self._change = generator.drift
        self._dense = [self._dense_effects(n) for n in range(generator.shape.dense)]
        n = min(generator.examples, _SAMPLE)

        def parts(numbers: Array) -> dict[str, Array]:
            return self._parts(generator.draw(numbers * generator.examples // n))

        chunks = list(generator.map_chunks(parts, 0, n))
        sample = {name: np.concatenate([chunk[name] for chunk in chunks]) for name in chunks[0]}
        self._scales = {name: _scale(part, _DEVIATIONS[name]) for name, part in sample.items()}
        self._constant = 0.0
        self._constant = _constant_for(positives, self._log_odds(sample))

    def label(self, examples: RawExamples) -> Labels:
        """Draw the labels of some examples."""
        bins = _bins(self._log_odds(self._parts(examples)))
        words = random_words(key(self._seed, "label"), examples.example_numbers)
        return Labels((shares(words) < CHANCES[bins]).astype(np.float32), bins)

    def _log_odds(self, parts: dict[str, Array]) -> Array:
        total = np.full(len(parts["rows"]), self._constant)
        for name, part in parts.items():
            total += part * self._scales[name]
        return total

    def _parts(self, examples: RawExamples) -> dict[str, Array]:
        """The sums of effects before they are scaled."""
        total = np.zeros(len(examples.example_numbers))
        vectors = []
        for column in self._generator.shape.columns:
            column_values = examples.columns[column.name]
            moments = column_values.per_value(examples.moments)
            words = self._words(column.table, column_values.values, moments)
            strength = 32 + int(key(self._seed, "strength", column.name)) % 64
            total += strength * column_values.mean(_signed_bits(words, 48, 16))
            if column.mixes:
                hidden = (_signed_bits(words, 12 * place, 12) for place in range(_HIDDEN))
                vectors.append([column_values.mean(component) for component in hidden])
        parts = {"rows": total}
        if vectors:
            parts["pairs"] = _pairs(vectors)
        if examples.dense:
            parts["dense"] = np.zeros(len(total))
            for number, counts in enumerate(examples.dense):
                word = np.full(len(counts), key(self._seed, "dense change", number))
                changed = self._change.has_happened(examples.moments, word)
                parts["dense"] += self._dense[number][changed.astype(np.int64), counts + 1]
        return parts

    def _words(self, table: str, values: Array, moments: Array) -> Array:
        """A random word for each value: another one after a change."""
        words = random_words(key(self._seed, "effect", table), values)
        if self._change.kind == "none":
            return words
        changed = self._change.has_happened(
            moments, random_words(key(self._seed, "change", table), values)
        )
        return np.where(changed, random_words(key(self._seed, "second", table), values), words)

    def _dense_effects(self, number: int) -> Array:
        """The effect of every count of a dense value, missing first, before and after a change.

        Missing is packed as 0, so it means what 0 means: else no model could know it.
        """
        logs = np.concatenate([[0.0], _log_counts()])
        versions = []
        for version in range(2):
            words = np.array([key(self._seed, "dense effect", number, version)])
            slope, bend = _signed_bits(words, 0, 16), _signed_bits(words, 16, 16)
            versions.append(np.rint(slope * (logs - 1) + bend * np.abs(logs - 2) / 2))
        return np.stack(versions)


def dense_values() -> Array:
    """The packed value of each dense count, shifted by one: log(x + 1), and 0 for missing."""
    return np.concatenate([[0.0], _log_counts()]).astype(np.float32)


def _log_counts() -> Array:
    return np.array([math.log1p(count) for count in range(DENSE_VALUES)])


def _signed_bits(words: Array, shift: int, bits: int) -> Array:
    """Some bits of each word, as a number around 0."""
    return ((words >> np.uint64(shift)) & np.uint64((1 << bits) - 1)) - float(1 << bits - 1)


def _bins(log_odds: Array) -> Array:
    return np.clip(log_odds * 1024 + _BINS // 2, 0, _BINS - 1).astype(np.int64)


def _constant_for(positives: float, log_odds: Array) -> float:
    """What to add to log-odds so that their mean probability is the wanted one."""
    low, high = -8.0, 8.0
    for _ in range(20):
        middle = (low + high) / 2
        if CHANCES[_bins(log_odds + middle)].mean() < positives:
            low = middle
        else:
            high = middle
    return high


def _pairs(vectors: list[list[Array]]) -> Array:
    """The sum over pairs of columns of the product of their hidden vectors."""
    total = np.zeros(len(vectors[0][0]))
    for components in zip(*vectors, strict=True):
        together = np.zeros(len(total))
        for component in components:
            together += component
            total -= component * component
        total += together * together
    return total


def _scale(part: Array, deviation: float) -> float:
    """The factor that gives a part its standard deviation, rounded: the same on every machine."""
    spread = float(part.std())
    return float(f"{deviation / spread:.6g}") if spread else 0.0
