"""A section of the configuration: checked when it is built, and turned into plain values."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cache
from importlib import import_module
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import msgspec
from msgspec import inspect

from slipstream.errors import ConfigError, did_you_mean

if TYPE_CHECKING:
    from typing_extensions import Self

_LARGEST = (1 << 63) - 1  # whole numbers are kept in 64 bits
_DEEPEST = 20  # a mapping deeper than that contains itself
_LEAST_ALIKE = 0.6  # names less alike than that are not suggested
_OTHER_NAMES = {"learning_rate": "lr", "limit": "stop", "ordering": "order"}
S = TypeVar("S", bound="Settings")


class WrongKeyError(ConfigError):
    """A key that does not exist, or has a value that is not allowed."""

    def __init__(self, path: str, problem: str, before: str = "") -> None:
        self.path, self.problem, self.before = path, problem, before
        super().__init__(f"{before}{path}{problem}")


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A group of keys. Every value is checked at once, and never changes.

    Attributes:
        BRIEF: Whether keys that are null are left out of files.
        REST: The field that holds keys without a field, such as those of a model.
    """

    BRIEF: ClassVar[bool] = False
    REST: ClassVar[str] = ""

    def __post_init__(self) -> None:
        for name, key in keys_of(type(self)).items():
            value = _converted(key, getattr(self, name), "" if name == self.REST else name)
            msgspec.structs.force_setattr(self, name, value)

    def replace(self, **values: Any) -> Self:
        """A copy with some values changed."""
        return msgspec.structs.replace(self, **values)


@dataclass(frozen=True)
class Key:
    """A key of a section."""

    hint: Any  # its type as it is written
    info: inspect.Type  # the same without null
    nullable: bool
    default: Any
    meaning: str
    allowed_words: str  # the allowed values, where the type does not show them
    registry: str  # the module and the mapping that list the allowed names
    own: bool  # whether users add names to the registry

    @property
    def section(self) -> type[Settings] | None:
        """The section that the key holds, or holds several of by name."""
        info = self.info.value_type if isinstance(self.info, inspect.DictType) else self.info
        section: type[Settings] | None = getattr(info, "cls", None)
        return section

    @property
    def several(self) -> bool:
        """Whether it is a mapping of names to sections."""
        return isinstance(self.info, inspect.DictType) and self.section is not None

    @property
    def choices(self) -> list[str]:
        """The names that are allowed, where only some are; imports the registry of these."""
        if isinstance(self.info, inspect.LiteralType):
            return [str(value) for value in self.info.values]
        module, _, registry = self.registry.partition(":")
        return list(getattr(import_module(module), registry)) if module else []

    @property
    def allowed(self) -> str:
        """The values that are allowed, in words."""
        number = self.info.item_type if isinstance(self.info, inspect.VarTupleType) else self.info
        bounds = {words: getattr(number, name, None) for name, words in _BOUNDS.items()}
        limits = [f"{words} {bound:g}" for words, bound in bounds.items() if bound is not None]
        if self.allowed_words:
            words = self.allowed_words
        elif self.choices:
            words = " or ".join(filter(None, (", ".join(self.choices[:-1]), self.choices[-1])))
            words = words if number is self.info else f"a list of {', '.join(self.choices)}"
        else:
            words = _KINDS.get(type(number), "a mapping")
            words = words if number is self.info else f"a list of {words.removeprefix('a ')}s"
            words += f" {' and '.join(limits)}" if limits else ""
        return f"{words}, or null" if self.nullable else words


_BOUNDS = {"gt": "above", "ge": "of at least", "lt": "below", "le": "at most"}
_KINDS: dict[type, str] = {
    inspect.BoolType: "true or false",
    inspect.StrType: "text",
    inspect.IntType: "a whole number",
    inspect.FloatType: "a number",
}


@cache
def keys_of(section: type[Settings]) -> dict[str, Key]:
    """The keys of a section by name, without those of the sections in it."""
    keys = {}
    for field in msgspec.structs.fields(section):
        info, meaning, texts, nullable = inspect.type_info(field.type), "", {}, False
        if isinstance(info, inspect.Metadata):
            meaning, texts = (info.extra_json_schema or {}).get("description", ""), info.extra or {}
            info = info.type
        if isinstance(info, inspect.UnionType):
            nullable = info.includes_none
            kinds = [kind for kind in info.types if not isinstance(kind, inspect.NoneType)]
            info = kinds[0] if len(kinds) == 1 else info
        mutable = field.default_factory is not msgspec.NODEFAULT
        default = field.default_factory() if mutable else field.default
        words, registry = texts.get("allowed", ""), texts.get("registry", "")
        keys[field.name] = Key(
            field.type, info, nullable, default, meaning, words, registry, texts.get("own", False)
        )
    return keys


def build(kind: type[S], mapping: Any, place: str = "", root: type[Settings] | None = None) -> S:
    """The section that a mapping describes; keys that it leaves out have their default.

    The section has the key `place`, or none if it is the whole configuration. An unknown key is
    also looked for elsewhere in the class `root`.
    """
    if isinstance(mapping, kind):
        return mapping
    if not isinstance(mapping, Mapping):
        problem = f" is {shown(mapping)}; it must be a mapping of keys."
        raise WrongKeyError(place or "The configuration", problem)
    keys, values, rest = keys_of(kind), {}, {}
    for name, value in mapping.items():
        check_name(name, place)
        if name in keys and name != kind.REST:
            # Its sections are built here, where the class of the whole configuration is known.
            values[name] = _sections(keys[name], value, join(place, name), root or kind)
        elif kind.REST:
            rest[name] = value
        else:
            raise _unknown(name, keys, place, root or kind)
    try:
        return kind(**values, **({kind.REST: rest} if kind.REST else {}))
    except WrongKeyError as wrong:
        raise WrongKeyError(join(place, wrong.path), wrong.problem, wrong.before) from None


def to_mapping(section: Settings) -> dict[str, Any]:
    """The mapping that describes a section, complete."""
    mapping: dict[str, Any] = {}
    for name in keys_of(type(section)):
        value = getattr(section, name)
        if name == section.REST:
            mapping.update(_builtins(value))
        elif value is not None or not section.BRIEF:
            mapping[name] = _builtins(value)
    return mapping


def paths_of(section: type[Settings], place: str = "") -> Iterator[tuple[str, Key]]:
    """All keys by their full names; a section comes before its keys."""
    for name, key in keys_of(section).items():
        path = join(place, name)
        yield path, key
        if key.section is not None:
            yield from paths_of(key.section, f"{path}.NAME" if key.several else path)


def check_choices(section: Settings, place: str = "") -> None:
    """Raise an error for a name that its registry does not list."""
    for name, key in keys_of(type(section)).items():
        value, path = getattr(section, name), join(place, name)
        if isinstance(value, Settings):
            check_choices(value, path)
        elif key.several:
            for inner, table in value.items():
                check_choices(table, join(path, inner))
        names = value if isinstance(value, tuple) else (value,)
        for name in names if key.registry else ():
            if isinstance(name, str) and name not in key.choices:
                raise _not_allowed(key, name, path)


def join(*names: str) -> str:
    """A full key; empty names are left out."""
    return ".".join(filter(None, names))


def shown(value: Any) -> str:
    """A value as a file would show it, in few characters."""
    words = {None: "null", True: "true", False: "false"}
    text = words[value] if value is None or isinstance(value, bool) else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def check_name(name: Any, place: str) -> None:
    """Raise an error if the name of a key is not text."""
    if not isinstance(name, str) or not name:
        before = f"The key {shown(name)}{' in ' if place else ''}"
        raise WrongKeyError(place, " is not text; put it in quotes.", before)


def _converted(key: Key, value: Any, path: str) -> Any:
    """The value of a key in its own type; an error if it is not allowed."""
    if value is None and key.nullable:
        return None
    if key.section is not None:
        return _sections(key, value, path, None)
    if isinstance(key.info, inspect.DictType):
        if not isinstance(value, Mapping):
            raise WrongKeyError(path, f" is {shown(value)}; it must be a mapping.")
        return _plain(value, path)
    try:
        plain = _plain(value, path)
        if isinstance(key.info, inspect.IntType) and isinstance(plain, float):
            plain = int(plain) if plain.is_integer() else plain  # 2e6 is short for two million
        return msgspec.convert(plain, key.hint)
    except (msgspec.ValidationError, ConfigError):
        raise _not_allowed(key, value, path) from None


def _sections(key: Key, value: Any, path: str, root: type[Settings] | None) -> Any:
    """The sections that a value describes, where the key holds some."""
    if key.section is None or (value is None and key.nullable):
        return value
    if not key.several:
        return build(key.section, value, path, root)
    if not isinstance(value, Mapping):
        raise WrongKeyError(path, f" is {shown(value)}; it must be a mapping.")
    for name in value:
        check_name(name, path)
    return {
        name: build(key.section, inner, join(path, name), root) for name, inner in value.items()
    }


def _plain(value: Any, path: str, depth: int = 0) -> Any:
    """A value that a file can hold: null, text, numbers, and lists and mappings of these."""
    if isinstance(value, list | tuple) and depth < _DEEPEST:
        return [_plain(inner, f"{path}[{n}]", depth + 1) for n, inner in enumerate(value)]
    if isinstance(value, Mapping) and depth < _DEEPEST:
        for name in value:
            check_name(name, path)
        return {name: _plain(inner, join(path, name), depth + 1) for name, inner in value.items()}
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str | os.PathLike):
        return str(os.fspath(value))
    if isinstance(value, Integral) and abs(int(value)) <= _LARGEST:  # also NumPy's numbers
        return int(value)
    if isinstance(value, Real) and not isinstance(value, Integral) and math.isfinite(value):
        return float(value)
    rule = "; it must be text, a finite number, true, false, null, or a list or mapping of these."
    raise WrongKeyError(path, f" is {shown(value)}{rule}")


def _builtins(value: Any) -> Any:
    if isinstance(value, Settings):
        return to_mapping(value)
    if isinstance(value, dict):
        return {name: _builtins(inner) for name, inner in value.items()}
    return [_builtins(inner) for inner in value] if isinstance(value, list | tuple) else value


def _not_allowed(key: Key, value: Any, path: str) -> WrongKeyError:
    hint = did_you_mean(value, key.choices) if isinstance(value, str) else ""
    hint = hint.partition("?")[0] + "?" if "?" in hint else ""
    if key.own and isinstance(value, str):
        hint += " If it is your own, import its module first."
    return WrongKeyError(path, f" is {shown(value)}; it must be {key.allowed}.{hint}")


def _unknown(name: str, keys: Mapping[str, Key], place: str, root: type[Settings]) -> WrongKeyError:
    """An error with what was probably meant: near names beside it, the same name elsewhere."""
    wanted = _OTHER_NAMES.get(name, name)
    alike = {key: SequenceMatcher(None, wanted, key).ratio() for key in keys}
    best = max(alike.values())
    meant = [join(place, key) for key in keys if alike[key] == best >= _LEAST_ALIKE]
    meant += [path for path, _ in paths_of(root) if path.rpartition(".")[2] == wanted]
    meant = list(dict.fromkeys(meant))
    hint = f" Did you mean {' or '.join(meant)}?" if meant else ""
    if best < _LEAST_ALIKE:
        hint += f" The keys {f'of {place}' if place else 'there'} are {', '.join(keys)}."
    return WrongKeyError(join(place, name), f".{hint}", before="There is no key ")
