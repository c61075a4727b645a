"""What a bug report, or a reader of figures, needs to know of a machine."""

from __future__ import annotations

import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from slipstream.version import __version__

_PACKAGES = ("torch", "triton", "numpy", "numba", "polars", "pyarrow", "rich", "typer", "pyyaml")


def environment() -> dict[str, Any]:
    """Versions, processor, memory and devices, as JSON.

    Example:
        >>> found = environment()
        >>> found["slipstream"] == slipstream.__version__, found["cpu"]["usable"] >= 1
        (True, True)
    """
    return {
        "slipstream": __version__,
        "python": platform.python_version(),
        "system": platform.platform(),
        "cpu": {"name": _cpu_name(), "cores": os.cpu_count(), "usable": _usable()},
        "memory_bytes": _memory(),
        **_torch(),
        "packages": {name: found for name in _PACKAGES if (found := _version(name))},
        "variables": {
            name: value
            for name, value in sorted(os.environ.items())
            if name.startswith(("OMP_", "MKL_", "NUMBA_", "CUDA_VISIBLE", "TORCH_"))
        },
    }


def in_words(found: dict[str, Any]) -> str:
    """The machine in one line.

    Example:
        >>> in_words({"cpu": {"name": "A CPU", "usable": 2}, "memory_bytes": 4 << 30, "gpus": []})
        'A CPU, 2 cores, 4 GiB of memory, no GPU'
    """
    gpus = [f"{one['name']} ({one['memory_bytes'] / 2**30:.0f} GiB)" for one in found["gpus"]]
    return (
        f"{found['cpu']['name']}, {found['cpu']['usable']} cores, "
        f"{found['memory_bytes'] / 2**30:.3g} GiB of memory, {' and '.join(gpus) or 'no GPU'}"
    )


def _torch() -> dict[str, Any]:
    """What torch sees; that it cannot be imported is worth knowing too."""
    try:
        import torch
    except Exception as error:
        return {"threads": 0, "cuda": None, "gpus": [], "torch_error": str(error)}
    gpus = []
    if torch.cuda.is_available():
        for number in range(torch.cuda.device_count()):
            one = torch.cuda.get_device_properties(number)
            gpus.append({"name": one.name, "memory_bytes": one.total_memory})
    return {"threads": torch.get_num_threads(), "cuda": torch.version.cuda, "gpus": gpus}


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _cpu_name() -> str:
    path = Path("/proc/cpuinfo")
    if path.is_file():
        for line in path.read_text(errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _usable() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _memory() -> int:
    if sys.platform == "win32":
        return 0
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
