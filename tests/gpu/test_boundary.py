"""What needs a GPU stays in `gpu/`, and the rest of the code uses its interface alone."""

import ast
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "slipstream"
GPU = SOURCE / "gpu"


def imports_of(path):
    """Full names of everything that a file imports."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{name.name}" for name in node.names)


def is_in(name, package):
    return name == package or name.startswith(f"{package}.")


def problems_of(path):
    """Every use of a GPU in a file that does not go through the interface."""
    for name in imports_of(path):
        # `slipstream.gpu.name` is a function of the interface, not a module.
        inner = name.split(".")[2:] if is_in(name, "slipstream.gpu") else []
        is_module = inner and any((GPU / f"{inner[0]}{end}").exists() for end in ("", ".py"))
        if is_module or is_in(name, "triton") or is_in(name, "torch.cuda"):
            yield f"{path.relative_to(SOURCE)} imports {name}"
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        name = ast.unparse(node) if isinstance(node, ast.Attribute) else ""
        if name.startswith(("torch.cuda", "torch.backends.cuda")) or name.endswith(".is_cuda"):
            yield f"{path.relative_to(SOURCE)}:{node.lineno} uses {name}"


def test_outside_of_gpu_only_its_interface_is_used():
    outside = [path for path in SOURCE.rglob("*.py") if GPU not in path.parents]
    assert not [problem for path in outside for problem in problems_of(path)]


def test_the_interface_imports_neither_triton_nor_torch():
    code = "import sys, slipstream.gpu; print({'triton', 'torch'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
