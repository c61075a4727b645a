"""Scores of predictions against the true chances of built-in data, free of the luck of labels.

Scored against chances, predictions have the scores that they would have on average over all draws
of the labels. So differences of 0.0001 AUC show with a few hundred thousand examples.
"""

from __future__ import annotations

import numpy as np

from slipstream import Recipe
from slipstream.data.synthetic.teacher import CHANCES, Teacher

Array = np.ndarray
PARTS = ("train", "validation", "evaluation")


def true_chances(recipe: Recipe, part: str = "evaluation") -> Array:
    """The chance of each example of a part to be positive."""
    generator = recipe.generator()
    teacher = Teacher(generator, recipe.share)
    start, stop = recipe.parts()[part]
    chunks = generator.map_chunks(generator.draw, start, stop)
    return np.concatenate([CHANCES[teacher.label(examples).bins] for examples in chunks])


def expected_auc(logits: Array, chance: Array) -> float:
    """The AUC on average over all draws of the labels.

    Args:
        logits: The predictions.
        chance: The true chance of each example to be positive; or its label.
    """
    p = chance.astype(np.float64)
    q = 1 - p
    _, group = np.unique(logits, return_inverse=True)  # equal scores, in rising order
    positive, negative = np.bincount(group, p), np.bincount(group, q)
    below = np.cumsum(negative) - negative
    own = float(p @ q)  # an example is no pair with itself
    won = float(positive @ (below + negative / 2)) - own / 2
    return won / (p.sum() * q.sum() - own)
