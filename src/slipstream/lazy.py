"""Names of a package that are imported when they are used first."""

import sys
from collections.abc import Mapping, Sequence
from importlib import import_module


def lazy_name(package: str, modules: Mapping[str, Sequence[str]], name: str) -> object:
    """The value of a name in a package, for its `__getattr__`.

    Args:
        package: The package.
        modules: For each of its modules the names that it defines.
        name: The name.
    """
    for module, names in modules.items():
        if name in names:
            value = getattr(import_module(f"{package}.{module}"), name)
            setattr(sys.modules[package], name, value)
            return value
    raise AttributeError(f"module {package!r} has no attribute {name!r}")
