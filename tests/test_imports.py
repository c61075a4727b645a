"""Packages import in one direction, from top to bottom of one list."""

import ast
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "src" / "slipstream"

# A package imports only from lines above its own, and from itself.
LAYERS = (
    "version errors arrays",
    "quick lazy compiled prefetch background t_distribution number_format",
    "order",
    "data",
    "tables",
    "config",
    "models",
    "pipeline",
    "skip",
    "gpu",
    "training",
    "analyze",
    "cli",
    "__init__ __main__",
)
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names.split()}


def layer_of(module: str) -> str:
    """The package of a module, without the leading `slipstream.`."""
    return module.split(".")[0]


def imported_modules(node: ast.AST):
    """Modules of slipstream that code imports, also within functions; not those for types only."""
    if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING":
        return
    if isinstance(node, ast.ImportFrom) and node.module == "slipstream":
        yield from (name.name for name in node.names)
    elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("slipstream."):
        yield node.module.removeprefix("slipstream.")
    for child in ast.iter_child_nodes(node):
        yield from imported_modules(child)


def test_packages_import_in_one_direction():
    wrong = []
    for path in sorted(PACKAGE.rglob("*.py")):
        place = path.relative_to(PACKAGE)
        package = place.with_suffix("").parts[0]
        level = LEVEL[layer_of(".".join(place.with_suffix("").parts))]
        for module in imported_modules(ast.parse(path.read_text(encoding="utf-8"))):
            below = LEVEL.get(layer_of(module), -1) < level or module.split(".")[0] == package
            if not below:
                wrong.append(
                    f"{place} imports slipstream.{module}, a package further down in LAYERS"
                )
    assert not wrong, "\n" + "\n".join(wrong)


def test_every_package_has_its_layer():
    names = {path.stem for path in PACKAGE.iterdir() if path.suffix in {"", ".py"}}
    assert names - {"__pycache__", "py"} <= set(LEVEL)
