"""Runs the tests of the GPU kernels under two sanitizers, in some minutes; needs a GPU.

python tools/sanitize.py [--seconds 400] [--only streams|memory]

streams   PyTorch's CUDA sanitizer finds kernels in two streams that access the same memory without
          an order. `mutates_args` of a kernel's declaration tells it what the kernel writes.
memory    compute-sanitizer's memcheck finds accesses outside an allocation. Each tensor gets an
          allocation of its own, so that nothing valid lies behind it.

compute-sanitizer comes with the CUDA toolkit; it is searched for in PATH, CUDA_HOME and
/usr/local/cuda.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
TESTS = (
    *(f"tests/gpu/test_{name}.py" for name in ("arena", "touched_rows", "pages")),
    *(f"tests/gpu/test_{name}.py" for name in ("dots", "dots_of_rows", "mlp")),
    "tests/gpu/test_graph_engine.py::test_weights_in_one_row_move_as_pytorch_moves_them",
)
# These use PyTorch's dispatcher themselves, which its sanitizer replaces.
NOT_WITH_STREAMS = (
    "tests/gpu/test_dots_of_rows.py::test_kernels_change_nothing_and_are_what_a_compiler_is_told",
    "tests/gpu/test_mlp.py::test_nothing_is_made_for_gradients_of_what_is_only_kept",
)
KINDS = ("streams", "memory")
MEMCHECK = ("--tool", "memcheck", "--error-exitcode", "9", "--report-api-errors", "no")
MEMCHECK += ("--target-processes", "application-only")  # not the compiler


def memcheck() -> str | None:
    """The path of compute-sanitizer, or None."""
    homes = [Path(os.environ.get("CUDA_HOME", "/usr/local/cuda")), Path("/usr/local/cuda")]
    places = [os.environ.get("PATH", "")]
    places += [str(home / name) for home in homes for name in ("bin", "compute-sanitizer")]
    return shutil.which("compute-sanitizer", path=os.pathsep.join(places))


def command(kind: str) -> tuple[list[str], dict[str, str]] | None:
    """The command and its environment; None if the sanitizer is not installed."""
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *TESTS]
    few = {"HYPOTHESIS_PROFILE": "few", "OMP_NUM_THREADS": "1"}
    if kind == "streams":
        words += [f"--deselect={test}" for test in NOT_WITH_STREAMS]
        return words, {**few, "TORCH_CUDA_SANITIZER": "1"}
    tool = memcheck()
    if tool is None:
        return None
    return [tool, *MEMCHECK, *words], {**few, "PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}


def run(kind: str, seconds: float) -> bool:
    """Run one sanitizer and print how it ended."""
    start = command(kind)
    if start is None:
        print(f"{kind}: compute-sanitizer is not found. Install the CUDA toolkit, or name its "
              "folder in CUDA_HOME.")  # fmt: skip
        return False
    words, more = start
    begun = time.monotonic()
    child = subprocess.Popen(words, cwd=ROOT, env={**os.environ, **more}, start_new_session=True)
    try:
        status = child.wait(max(1.0, seconds))
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)  # and the tests that it runs
        child.wait()
        print(f"{kind}: not finished after {seconds:.0f} s; give --seconds more.", flush=True)
        return False
    result = "clean" if status == 0 else f"NOT clean, status {status}"
    print(f"{kind}: {result}, in {time.monotonic() - begun:.0f} s", flush=True)
    return status == 0


def main() -> int:
    """Return 0 if every sanitizer that ran is clean."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=400.0, help="for all of it")
    parser.add_argument("--only", choices=KINDS)
    options = parser.parse_args()
    import torch

    if not torch.cuda.is_available():
        print("There is no CUDA device here: nothing can be sanitized.")
        return 1
    end = time.monotonic() + options.seconds
    kinds = [options.only] if options.only else KINDS
    clean = [run(kind, end - time.monotonic()) for kind in kinds]
    return 0 if all(clean) else 1


if __name__ == "__main__":
    sys.exit(main())
