"""Scores of predictions against the truth of built-in data, free of the luck of its labels.

The teacher of built-in data knows the chance of every input. Scored against chances instead of
against labels drawn from them, the same predictions have the scores that they would have on
average over all draws: what is left is the luck of which inputs there are, which two models scored
on the same inputs share. That is what makes differences of 0.0001 AUC visible with a few hundred
thousand inputs.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slipstream import Recipe
from slipstream.data.synthetic.teacher import CHANCES, Teacher

Array = np.ndarray
PARTS = ("train", "validation", "evaluation")


class Expected(NamedTuple):
    """Scores on average over all draws of the labels.

    Args:
        auc: Chance that a positive input is scored above a negative one; ties count half.
        logloss: Mean over inputs.
        calibration: Mean prediction over mean chance.
    """

    auc: float
    logloss: float
    calibration: float


def true_chances(recipe: Recipe, part: str = "evaluation") -> Array:
    """The chance of each input of a part to be positive."""
    generator = recipe.generator()
    teacher = Teacher(generator, recipe.share)
    start, stop = recipe.parts()[part]
    drawn = generator.map_chunks(generator.draw, start, stop)
    return np.concatenate([CHANCES[teacher.label(examples).bins] for examples in drawn])


def expected(logits: Array, chance: Array) -> Expected:
    """The scores of some predictions.

    Args:
        logits: One for each input.
        chance: The true chance of each to be positive.
    """
    x, p = logits.astype(np.float64), chance.astype(np.float64)
    q = 1 - p
    _, group = np.unique(x, return_inverse=True)  # inputs with equal scores, in rising order
    positive, negative = np.bincount(group, p), np.bincount(group, q)
    below = np.cumsum(negative) - negative
    alone = float(p @ q)  # an input is no pair with itself
    won = float(positive @ (below + negative / 2)) - alone / 2
    small = np.log1p(np.exp(-np.abs(x)))
    loss = p * (np.maximum(-x, 0) + small) + q * (np.maximum(x, 0) + small)
    prediction = np.where(x < 0, np.exp(-np.abs(x)), 1.0) / (1 + np.exp(-np.abs(x)))
    return Expected(
        won / (p.sum() * q.sum() - alone), float(loss.mean()), float(prediction.sum() / p.sum())
    )


def oracle(chance: Array) -> Expected:
    """The scores of who knows the true chances."""
    p = np.clip(chance.astype(np.float64), 1e-9, 1 - 1e-9)
    return expected(np.log(p / (1 - p)), chance)
