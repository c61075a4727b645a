"""Errors that a user can act on: each is a sentence saying what is wrong, where, and what to do."""

from collections.abc import Iterable
from difflib import get_close_matches


def did_you_mean(name: str, choices: Iterable[str]) -> str:
    """A hint at what was probably meant, and all choices where they are few.

    Example:
        >>> did_you_mean("smal", ["small", "large"])
        ' Did you mean small? Choose from small, large.'
    """
    choices = list(choices)
    if not choices:
        return ""
    nearest = get_close_matches(name, choices, n=1)
    hint = f" Did you mean {nearest[0]}?" if nearest else ""
    return hint if nearest and len(choices) > 12 else f"{hint} Choose from {', '.join(choices)}."


class SlipstreamError(Exception):
    """Base of every error that is about the user's input rather than a defect here."""


class DataError(SlipstreamError):
    """A data set, or the arrays given to make one, are not what they should be."""


class ConfigError(SlipstreamError):
    """An option or argument is not one that can be used."""


class CheckpointError(SlipstreamError):
    """A checkpoint could not be saved, or none can be loaded."""
