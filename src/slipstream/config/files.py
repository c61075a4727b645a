"""Configurations in YAML files.

Values are read by the rules of YAML 1.2: `on` and `no` are text, `1e-3` is a number and so is
`1_000`. PyYAML by default follows YAML 1.1, where `1e-3` is text and `on` is true.
"""

from __future__ import annotations

import re
from functools import cache
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
        what = "nothing" if value is None else f"a {type(value).__name__}"
        raise ConfigError(
            f"{path}, line {lines[()]}: here is {what}; a configuration is a mapping of keys, "
            "such as `batch_size: 2048`."
        )
    return value, lines


def parse(text: str, source: str) -> tuple[Any, Lines]:
    """The value of a YAML text, and the line at which each key stands."""
    try:
        loader = _classes()[0](text)
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
    text: str = yaml.dump(
        value, Dumper=_classes()[1], sort_keys=False, allow_unicode=True, width=100
    )
    return text


@cache
def _classes() -> tuple[Any, Any]:
    """PyYAML's safe loader and dumper with the rules above."""

    class Loader(yaml.SafeLoader):
        yaml_implicit_resolvers: dict[str, Any] = {}

        def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
            seen: dict[Any, int] = {}
            for name, _ in node.value:
                if name.id != "scalar":
                    continue
                if name.value in seen:
                    raise ConfigError(
                        f"{self.name}, line {name.start_mark.line + 1}: {name.value} is given "
                        f"twice; the first time in line {seen[name.value]}."
                    )
                seen[name.value] = name.start_mark.line + 1
            return super().construct_mapping(node, deep)

    class Dumper(yaml.SafeDumper):
        def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
            return True

    def as_list(dumper: Any, data: list[Any]) -> Node:
        short = not any(isinstance(item, list | dict) for item in data)
        return dumper.represent_sequence(f"{tag}seq", data, flow_style=short)

    def as_text(dumper: Any, data: str) -> Node:
        # PyYAML breaks lines at \x85 within single quotes, and does not find it again.
        style = None if data.isprintable() else '"'
        return dumper.represent_scalar(f"{tag}str", data, style=style)

    tag = "tag:yaml.org,2002:"
    null, truth = (
        re.compile(r"(~|null|Null|NULL|)$"),
        re.compile(r"(true|True|TRUE|false|False|FALSE)$"),
    )
    Loader.add_implicit_resolver(f"{tag}null", null, ["~", "n", "N", ""])
    Loader.add_implicit_resolver(f"{tag}bool", truth, list("tTfF"))
    # The writer puts text in quotes that is something else by either version of YAML.
    for kind in (Loader, Dumper):
        kind.add_implicit_resolver(f"{tag}int", _INT, list("-+0123456789"))
        kind.add_implicit_resolver(f"{tag}float", _FLOAT, list("-+.0123456789"))
    Loader.add_constructor(f"{tag}int", lambda _, node: int(node.value))
    Loader.add_constructor(f"{tag}float", lambda _, node: float(node.value))
    Dumper.add_representer(list, as_list)
    Dumper.add_representer(str, as_text)
    return Loader, Dumper


def _lines(node: Any, path: tuple[str, ...] = (), above: tuple[int, ...] = ()) -> Lines:
    lines = {path: node.start_mark.line + 1}
    if node.id == "mapping" and id(node) not in above:
        for name, value in node.value:
            inner = (*path, str(name.value))
            lines.update(_lines(value, inner, (*above, id(node))))
            lines[inner] = name.start_mark.line + 1
    return lines
