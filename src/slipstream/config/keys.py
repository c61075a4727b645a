"""What a key of the configuration may be, and the sentence for a value that it may not be."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from functools import cache
from numbers import Integral, Real
from types import NoneType
from typing import Any, ClassVar, Literal, get_args, get_origin, get_type_hints

from slipstream.errors import ConfigError, did_you_mean

_LARGEST = (1 << 63) - 1
_DEEPEST = 20


class WrongKeyError(ConfigError):
    """A key that is not there, or whose value is not one it may have.

    Args:
        where: The key of the section, or nothing for the whole configuration.
        key: The key within it.
        problem: What comes behind the full key in the sentence.
        before: What comes before it.
    """

    def __init__(self, where: str, key: str, problem: str, before: str = "") -> None:
        self.key, self.problem, self.before = key, problem, before
        self.path = ".".join(filter(None, (where, key)))
        super().__init__(f"{before}{self.path}{problem}")

    def within(self, where: str) -> WrongKeyError:
        """The same about a section that stands at another key."""
        return WrongKeyError(where, self.key, self.problem, self.before)


@dataclass(frozen=True)
class Meaning:
    """What a key means, and the bounds of its value (of each value, in a list)."""

    text: str
    least: float | None = None
    above: float | None = None
    most: float | None = None
    below: float | None = None
    pattern: str = ""
    allowed: str = ""


def key(default: Any, text: str, **bounds: Any) -> Any:
    """A field of a section: its default (a function makes one), its meaning and its bounds."""
    metadata = {"meaning": Meaning(text, **bounds)}
    if callable(default):
        return field(default_factory=default, metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass(frozen=True)
class Section:
    """A group of keys; every value is checked when it is made, and then never changes.

    Attributes:
        WHERE: The key at which it stands.
        BRIEF: Keys that are null are not written.
        REST: The field that takes the keys which are not fields.
    """

    WHERE: ClassVar[str] = ""
    BRIEF: ClassVar[bool] = False
    REST: ClassVar[str] = ""

    def __post_init__(self) -> None:
        for one, hint in keys_of(type(self)):
            value = getattr(self, one.name)
            good = _checked(value, hint, one.metadata["meaning"], type(self).WHERE, one.name)
            object.__setattr__(self, one.name, good)


def keys_of(section: type[Section]) -> tuple[tuple[Field[Any], Any], ...]:
    """The fields of a section and their types."""
    return _keys_of(section)  # type: ignore[arg-type]  # a class has a hash, whatever its objects


@cache
def _keys_of(section: type[Section]) -> tuple[tuple[Field[Any], Any], ...]:
    hints = get_type_hints(section)
    return tuple((one, hints[one.name]) for one in fields(section))


def default_of(one: Field[Any]) -> Any:
    """The default of a field."""
    return one.default if one.default_factory is MISSING else one.default_factory()


def without_none(hint: Any) -> Any:
    """The type, less null."""
    choices = [choice for choice in get_args(hint) if choice is not NoneType]
    return choices[0] if NoneType in get_args(hint) else hint


def section_of(hint: Any) -> type[Section] | None:
    """The section that a type is, or is a mapping of."""
    hint = without_none(hint)
    if get_origin(hint) is dict:
        hint = get_args(hint)[1]
    return hint if is_dataclass(hint) else None  # type: ignore[return-value]


def allowed(hint: Any, meaning: Meaning) -> str:
    """What a key may be, in words.

    Example:
        >>> allowed(int | None, Meaning("", least=1))
        'a whole number of at least 1, or null'
    """
    inner = without_none(hint)
    if meaning.allowed:
        words = meaning.allowed
    elif get_origin(inner) is Literal:
        words = " or ".join(filter(None, (", ".join(get_args(inner)[:-1]), get_args(inner)[-1])))
    elif inner is bool:
        words = "true or false"
    elif inner is str:
        words = "text"
    elif get_origin(inner) is tuple:
        words = f"a list of numbers{_bounds(meaning)}"
    elif inner in (int, float):
        words = f"a {'whole ' if inner is int else ''}number{_bounds(meaning)}"
    else:
        words = "a mapping"
    return words if inner is hint else f"{words}, or null"


def shown(value: Any) -> str:
    """A value as it would stand in a file, in few characters."""
    words = {None: "null", True: "true", False: "false"}
    text = words[value] if value is None or isinstance(value, bool) else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def plain(value: Any, where: str, name: str, depth: int = 0) -> Any:
    """A value that a file can hold: null, text, numbers, and lists and mappings of these."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, Integral) and abs(int(value)) <= _LARGEST:
        return int(value)
    if isinstance(value, Real) and not isinstance(value, Integral) and math.isfinite(value):
        return float(value)
    if isinstance(value, list | tuple) and depth < _DEEPEST:
        return [plain(one, where, f"{name}[{n}]", depth + 1) for n, one in enumerate(value)]
    if isinstance(value, Mapping) and depth < _DEEPEST:
        for inner in value:
            check_name(inner, ".".join(filter(None, (where, name))))
        return {k: plain(one, where, f"{name}.{k}", depth + 1) for k, one in value.items()}
    rule = "; it must be text, a finite number, true, false, null, or a list or mapping of these."
    raise WrongKeyError(where, name, f" is {shown(value)}{rule}")


def check_name(name: Any, where: str) -> None:
    """Names of keys are text."""
    if not isinstance(name, str) or not name:
        within = f" in {where}" if where else ""
        raise ConfigError(f"The key {shown(name)}{within} is not text; put it in quotes.")


def _checked(value: Any, hint: Any, meaning: Meaning, where: str, name: str) -> Any:
    inner = without_none(hint)
    if value is None and inner is not hint:
        return None
    if get_origin(inner) is dict:
        return _mapping(value, inner, where, name)
    if get_origin(inner) is tuple:
        values = value if isinstance(value, list | tuple) else [None]
        numbers = [_one(one, float, meaning) for one in values]
        if None not in numbers:
            return tuple(numbers)
    elif get_origin(inner) is Literal:
        choices = get_args(inner)
        if isinstance(value, str) and value in choices:
            return value
        near = did_you_mean(value, choices) if isinstance(value, str) else ""
        hint_at = near.partition("?")[0] + "?" if "?" in near else ""
        what = f" is {shown(value)}; it must be {allowed(hint, meaning)}.{hint_at}"
        raise WrongKeyError(where, name, what)
    else:
        good = _one(value, inner, meaning)
        if good is not None:
            return good
    raise WrongKeyError(where, name, f" is {shown(value)}; it must be {allowed(hint, meaning)}.")


def _one(value: Any, kind: Any, meaning: Meaning) -> Any:
    """The value as its kind has it, or None if it cannot be one."""
    if kind is bool:
        return value if isinstance(value, bool) else None
    if kind is str:
        text = os.fspath(value) if isinstance(value, str | os.PathLike) else "\0"
        return text if re.fullmatch(meaning.pattern or r"[^\0]*", text) else None
    if kind in (int, float):
        number = _number(value, kind)
        return number if number is not None and _within(number, meaning) else None
    return value if isinstance(value, kind) else None


def _number(value: Any, kind: type) -> Any:
    if isinstance(value, bool) or not isinstance(value, Real):
        return None
    if isinstance(value, Integral):
        whole = int(value)
        return kind(whole) if abs(whole) <= _LARGEST else None
    number = float(value)
    if not math.isfinite(number):
        return None
    if kind is float:
        return number
    # 2e6 is a handy way to write two million.
    return int(number) if number.is_integer() and abs(number) < _LARGEST else None


def _within(value: float, meaning: Meaning) -> bool:
    return (
        (meaning.least is None or value >= meaning.least)
        and (meaning.above is None or value > meaning.above)
        and (meaning.most is None or value <= meaning.most)
        and (meaning.below is None or value < meaning.below)
    )


def _bounds(meaning: Meaning) -> str:
    low = "" if meaning.least is None else f"of at least {meaning.least:g}"
    low = low if meaning.above is None else f"above {meaning.above:g}"
    high = "" if meaning.most is None else f"at most {meaning.most:g}"
    high = high if meaning.below is None else f"below {meaning.below:g}"
    text = " and ".join(filter(None, (low, high)))
    return f" {text}" if text else ""


def _mapping(value: Any, hint: Any, where: str, name: str) -> Any:
    kind = get_args(hint)[1]
    if not isinstance(value, Mapping):
        raise WrongKeyError(where, name, f" is {shown(value)}; it must be a mapping.")
    if kind is Any:
        for inner in value:
            check_name(inner, where)
        return {inner: plain(one, where, inner) for inner, one in value.items()}
    for inner, one in value.items():
        check_name(inner, f"{where}.{name}")
        if not isinstance(one, kind):
            raise WrongKeyError(
                where, f"{name}.{inner}", f" is {shown(one)}; it must be a mapping."
            )
    return dict(value)
