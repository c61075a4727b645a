"""A configuration as a mapping of plain values, and back."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from difflib import SequenceMatcher
from typing import Any, TypeVar, get_origin

from slipstream.config.keys import (
    Section,
    WrongKeyError,
    check_name,
    keys_of,
    section_of,
    shown,
    without_none,
)

S = TypeVar("S", bound=Section)
_NEAR = 0.6
_TABLE = re.compile(r"embedding\.tables\.(.+?)\.((?:init\.)?[^.]+)")


def to_section(kind: type[S], given: Any, where: str, root: type[Section]) -> S:
    """The section that a mapping describes; what it leaves out has its default.

    Args:
        kind: The section's class.
        given: The mapping.
        where: The key at which it stands.
        root: The class of the whole, in which an unknown key is looked for.
    """
    if isinstance(given, kind):
        return given
    if not isinstance(given, Mapping):
        problem = f" is {shown(given)}; it must be a mapping of keys."
        raise WrongKeyError("", where or "The configuration", problem)
    hints = {one.name: hint for one, hint in keys_of(kind) if one.name != kind.REST}
    values: dict[str, Any] = {}
    rest: dict[str, Any] = {}
    for name, value in given.items():
        check_name(name, where)
        if name in hints:
            path = ".".join(filter(None, (where, name)))
            values[name] = _to_value(hints[name], value, path, root)
        elif kind.REST:
            rest[name] = value
        else:
            raise _unknown(name, list(hints), where, root)
    try:
        return kind(**values, **({kind.REST: rest} if kind.REST else {}))
    except WrongKeyError as wrong:
        raise wrong.within(where) from None


def to_mapping(section: Section) -> dict[str, Any]:
    """The mapping that describes a section, complete."""
    result: dict[str, Any] = {}
    for one, _ in keys_of(type(section)):
        value = getattr(section, one.name)
        if one.name == section.REST:
            result.update(_copy(value))
        elif value is not None or not section.BRIEF:
            result[one.name] = _copy(value)
    return result


def assign(mapping: dict[str, Any], path: str, value: Any) -> None:
    """Give the key at a path, such as `dense.lr`, a value."""
    table = _TABLE.fullmatch(path)  # names of tables may have dots
    parts = ["embedding", "tables", table[1], *table[2].split(".")] if table else path.split(".")
    for depth, part in enumerate(parts[:-1]):
        inner = mapping.get(part)
        if inner is None:
            inner = mapping[part] = {}
        elif not isinstance(inner, dict):
            above = ".".join(parts[: depth + 1])
            raise WrongKeyError(
                "", path, f" cannot be set: {above} is {shown(inner)}, not a mapping."
            )
        mapping = inner
    mapping[parts[-1]] = value


def leaves(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """All keys that hold a value, with their paths."""
    if isinstance(value, dict) and (value or path == ("embedding", "tables")):
        for name, inner in value.items():
            yield from leaves(inner, (*path, name))
    else:
        yield path, value


def paths_of(section: type[Section], where: str = "") -> Iterator[str]:
    """All keys there are, sections included, by their full names."""
    for one, hint in keys_of(section):
        if one.name == section.REST:
            continue
        path = ".".join(filter(None, (where, one.name)))
        yield path
        inner = section_of(hint)
        if inner is not None:
            several = get_origin(without_none(hint)) is dict
            yield from paths_of(inner, f"{path}.NAME" if several else path)


def _to_value(hint: Any, value: Any, path: str, root: type[Section]) -> Any:
    kind = section_of(hint)
    if kind is None or (value is None and without_none(hint) is not hint):
        return value
    if get_origin(hint) is not dict:
        return to_section(kind, value, path, root)
    if not isinstance(value, Mapping):
        return value  # the section says what is wrong with it
    for name in value:
        check_name(name, path)
    return {name: to_section(kind, one, f"{path}.{name}", root) for name, one in value.items()}


def _copy(value: Any) -> Any:
    if isinstance(value, Section):
        return to_mapping(value)
    if isinstance(value, dict):
        return {name: _copy(inner) for name, inner in value.items()}
    return [_copy(inner) for inner in value] if isinstance(value, list | tuple) else value


def _unknown(name: str, siblings: list[str], where: str, root: type[Section]) -> WrongKeyError:
    """What was probably meant: the nearest keys beside it, and keys of that name elsewhere."""
    near = {one: SequenceMatcher(None, name, one).ratio() for one in siblings}
    best = max(near.values())
    meant = [".".join(filter(None, (where, one))) for one in siblings if near[one] == best]
    if best < _NEAR:
        meant = []
    meant += [path for path in paths_of(root) if path.rpartition(".")[2] == name]
    hint = f" Did you mean {' or '.join(meant)}?" if meant else ""
    if best < _NEAR:
        hint += f" The keys {f'of {where}' if where else 'there'} are {', '.join(siblings)}."
    return WrongKeyError(where, name, f".{hint}", before="There is no key ")
