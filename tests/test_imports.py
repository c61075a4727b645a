"""The core needs torch and NumPy and nothing else."""

import subprocess
import sys

import pytest

SCRIPT = """
import sys
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {blocked}:
            raise ImportError(f"{{name}} is blocked by the test")
sys.meta_path.insert(0, Block())
import numpy, slipstream
slipstream.synthesize(slipstream.Recipe(rows=2000), sys.argv[1])
dataset = slipstream.Dataset.open(sys.argv[1])
assert slipstream.verify(sys.argv[1]) == []
order = slipstream.InputOrder(len(dataset.train), seed=1)
assert sum(batch.n_valid for batch in slipstream.Loader(dataset.train, 64, order=order)) == 1700
slipstream.from_arrays(numpy.zeros(3), {{"a": numpy.arange(3)}})
"""


@pytest.mark.process
def test_data_is_made_checked_and_read_without_anything_but_torch_and_numpy(tmp_path):
    blocked = {"polars", "pyarrow", "pydantic", "typer", "rich", "matplotlib", "pandas", "yaml"}
    blocked |= {"zstandard"}
    subprocess.run(
        [sys.executable, "-c", SCRIPT.format(blocked=blocked), str(tmp_path / "set")], check=True
    )
