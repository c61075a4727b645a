"""The options that all models share, and their checks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from slipstream.errors import ConfigError, did_you_mean

Options = TypeVar("Options", bound="ModelConfig")


@dataclass(frozen=True)
class ModelConfig:
    """The options of every model; a model adds its own.

    A size is a whole number of at least 1 (or `at_least` in the field's metadata), sizes of layers
    are a list of such numbers, a word is one of `choices` in the metadata.

    Args:
        normalize_dense: Dense values minus their mean, divided by their deviation; both are fixed
            when the model is built.
        normalize_embedded: Each embedding vector minus the mean of its elements, divided by their
            deviation, then a learned scale and shift for each feature.
    """

    normalize_dense: bool = False
    normalize_embedded: bool = False

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(field.default, tuple) and isinstance(value, list):
                value = tuple(value)
                object.__setattr__(self, field.name, value)
            _check(field.name, value, field.default, field.metadata)


def read_config(kind: type[Options], model: str, options: Mapping[str, Any]) -> Options:
    """The options of a model by name; raises an error for an unknown option."""
    known = [field.name for field in fields(kind)]
    for name in options:
        if name not in known:
            raise ConfigError(
                f"The model {model} has no option {name!r}.{did_you_mean(name, known)}"
            )
    return kind(**options)


def whole(value: object, at_least: int) -> bool:
    """Whether a value is a whole number of at least `at_least`; True is not a number."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= at_least


def _check(name: str, value: object, default: object, metadata: Mapping[str, Any]) -> None:
    if isinstance(default, bool):
        right, wanted = isinstance(value, bool), "true or false"
    elif isinstance(default, int):
        least = metadata.get("at_least", 1)
        right, wanted = whole(value, least), f"a whole number of at least {least}"
    elif isinstance(default, tuple):
        right = isinstance(value, tuple) and all(whole(size, 1) for size in value)
        wanted = "a list of whole numbers of at least 1"
    else:
        choices = metadata["choices"]
        right, wanted = value in choices, " or ".join(choices)
    if not right:
        raise ConfigError(f"{name} is {value!r}; it must be {wanted}.")
