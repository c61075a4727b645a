"""Runs the tests of the GPU's kernels under two sanitizers, in some minutes; needs a GPU.

python tools/sanitize.py [--seconds 400] [--only streams|memory]

streams   PyTorch's CUDA sanitizer: kernels in two streams that touch the same memory unordered. It
          knows what our kernels read and write by the `mutates_args` that they are declared with.
memory    compute-sanitizer's memcheck: reads and writes beyond what was asked for. Each tensor then
          has memory of its own, so that what lies behind one is nobody's.

The first compiles every kernel, and the second finds them compiled. compute-sanitizer comes with
the CUDA toolkit; it is looked for in the PATH, in CUDA_HOME and in /usr/local/cuda.
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
# These ask PyTorch what it does itself, which its sanitizer gets in the way of.
NOT_WITH_STREAMS = (
    "tests/gpu/test_dots_of_rows.py::test_kernels_change_nothing_and_are_what_a_compiler_is_told",
    "tests/gpu/test_mlp.py::test_nothing_is_made_for_gradients_of_what_is_only_kept",
)
KINDS = ("streams", "memory")
MEMCHECK = ("--tool", "memcheck", "--error-exitcode", "9", "--report-api-errors", "no")
MEMCHECK += ("--target-processes", "application-only")  # not the compiler


def memcheck() -> str | None:
    """Where compute-sanitizer is."""
    homes = [Path(os.environ.get("CUDA_HOME", "/usr/local/cuda")), Path("/usr/local/cuda")]
    places = [os.environ.get("PATH", "")]
    places += [str(home / name) for home in homes for name in ("bin", "compute-sanitizer")]
    return shutil.which("compute-sanitizer", path=os.pathsep.join(places))


def command(kind: str) -> tuple[list[str], dict[str, str]] | None:
    """What to run and with what in its environment; None where it is not there."""
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *TESTS]
    few = {"HYPOTHESIS_PROFILE": "few", "OMP_NUM_THREADS": "1"}
    if kind == "streams":
        words += [f"--deselect={one}" for one in NOT_WITH_STREAMS]
        return words, {**few, "TORCH_CUDA_SANITIZER": "1"}
    tool = memcheck()
    if tool is None:
        return None
    return [tool, *MEMCHECK, *words], {**few, "PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}


def run(kind: str, seconds: float) -> bool:
    """Run one of them, and say how it ended."""
    found = command(kind)
    if found is None:
        print(f"{kind}: compute-sanitizer is not found. Install the CUDA toolkit, or name its "
              "folder in CUDA_HOME.")  # fmt: skip
        return False
    words, more = found
    begun = time.monotonic()
    child = subprocess.Popen(words, cwd=ROOT, env={**os.environ, **more}, start_new_session=True)
    try:
        status = child.wait(max(1.0, seconds))
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)  # and what it watches
        child.wait()
        print(f"{kind}: not through after {seconds:.0f} s; give --seconds more.", flush=True)
        return False
    told = "clean" if status == 0 else f"NOT clean, status {status}"
    print(f"{kind}: {told}, in {time.monotonic() - begun:.0f} s", flush=True)
    return status == 0


def main() -> int:
    """The exit status is 0 where all that was asked for is clean."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=400.0, help="for all of it")
    parser.add_argument("--only", choices=KINDS)
    asked = parser.parse_args()
    import torch

    if not torch.cuda.is_available():
        print("There is no CUDA device here: nothing can be sanitized.")
        return 1
    end = time.monotonic() + asked.seconds
    kinds = [asked.only] if asked.only else KINDS
    clean = [run(kind, end - time.monotonic()) for kind in kinds]
    return 0 if all(clean) else 1


if __name__ == "__main__":
    sys.exit(main())
