"""Configurations in YAML files.

Values are read by the rules of YAML 1.2: `on` and `no` are text, `1e-3` is a number and so is
`1_000`. PyYAML by default follows YAML 1.1, where `1e-3` is text and `on` is true.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml
from yaml.nodes import Node

from slipstream.errors import ConfigError

Lines = dict[tuple[str, ...], int]
_INT = re.compile(r"[-+]?[0-9]+(_[0-9]+)*$")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(_[0-9]+)*(\.[0-9]*)?)([eE][-+]?[0-9]+)?$")


def read(path: Path) -> tuple[dict[Any, Any], Lines]:
    """The mapping in a file, and the line at which each key stands."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not text in UTF-8: {error.reason}.") from None
    value, lines = parse(text, str(path))
    if not isinstance(value, dict):
        content = "nothing" if value is None else f"a {type(value).__name__}"
        raise ConfigError(
            f"{path}, line {lines[()]}: here is {content}; a configuration is a mapping of keys, "
            "such as `batch_size: 2048`."
        )
    return value, lines


def parse(text: str, source: str) -> tuple[Any, Lines]:
    """The value of a YAML text, and the line at which each key stands."""
    try:
        loader = _Loader(text)
        loader.name = source
        node = loader.get_single_node()
        if node is None:
            return None, {(): 1}
        return loader.construct_document(node), _lines(node)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f", line {mark.line + 1}" if mark else ""
        raise ConfigError(f"{source}{line}: not YAML: {error.problem or error.context}.") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ConfigError(f"{source}: not YAML: {' '.join(str(error).split())}.") from None


def dump(value: Any) -> str:
    """The YAML text of a value, which `parse` reads as the same value."""
    text: str = yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)
    return text


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader with the rules above; a key may appear only once."""

    yaml_implicit_resolvers: dict[str, Any] = {}

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        lines: dict[str, int] = {}
        for name, _ in node.value:
            if name.id != "scalar":
                continue
            if name.value in lines:
                raise ConfigError(
                    f"{self.name}, line {name.start_mark.line + 1}: {name.value} is given twice; "
                    f"the first time in line {lines[name.value]}."
                )
            lines[name.value] = name.start_mark.line + 1
        return super().construct_mapping(node, deep)


class _Dumper(yaml.SafeDumper):
    """PyYAML's safe dumper; it quotes text that is something else in either version of YAML."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
        return True


def _list_node(dumper: Any, data: list[Any]) -> Node:
    short = not any(isinstance(item, list | dict) for item in data)
    return dumper.represent_sequence(f"{_TAG}seq", data, flow_style=short)


def _text_node(dumper: Any, data: str) -> Node:
    # PyYAML breaks lines at \x85 within single quotes, and loses it when reading.
    return dumper.represent_scalar(f"{_TAG}str", data, style=None if data.isprintable() else '"')


_TAG = "tag:yaml.org,2002:"
_NULL = re.compile(r"(~|null|Null|NULL|)$")
_BOOL = re.compile(r"(true|True|TRUE|false|False|FALSE)$")
_Loader.add_implicit_resolver(f"{_TAG}null", _NULL, ["~", "n", "N", ""])
_Loader.add_implicit_resolver(f"{_TAG}bool", _BOOL, list("tTfF"))
for _kind in (_Loader, _Dumper):
    _kind.add_implicit_resolver(f"{_TAG}int", _INT, list("-+0123456789"))
    _kind.add_implicit_resolver(f"{_TAG}float", _FLOAT, list("-+.0123456789"))
_Loader.add_constructor(f"{_TAG}int", lambda _, node: int(node.value))
_Loader.add_constructor(f"{_TAG}float", lambda _, node: float(node.value))
_Dumper.add_representer(list, _list_node)
_Dumper.add_representer(str, _text_node)


def _lines(node: Any, path: tuple[str, ...] = (), above: tuple[int, ...] = ()) -> Lines:
    lines = {path: node.start_mark.line + 1}
    if node.id == "mapping" and id(node) not in above:
        for name, value in node.value:
            inner = (*path, str(name.value))
            lines.update(_lines(value, inner, (*above, id(node))))
            lines[inner] = name.start_mark.line + 1
    return lines
