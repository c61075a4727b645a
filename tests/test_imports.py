"""The core needs torch, NumPy and Numba, and nothing else."""

import subprocess
import sys

import pytest

SCRIPT = """
import sys
sys.modules.update(dict.fromkeys({blocked}))  # as if they were not installed
import numpy, slipstream
slipstream.synthesize(slipstream.Recipe(rows=2000), sys.argv[1])
dataset = slipstream.Dataset.open(sys.argv[1])
assert slipstream.verify(sys.argv[1]) == []
order = slipstream.InputOrder(len(dataset.train), seed=1)
assert sum(batch.n_valid for batch in slipstream.Loader(dataset.train, 64, order=order)) == 1700
slipstream.from_arrays(numpy.zeros(3), {{"a": numpy.arange(3)}})

from slipstream.config import Checkpoint, Config, Log
from slipstream.training.loop import train
log, checkpoint = Log(tensorboard=False), Checkpoint(every_inputs=1000)
first = train(dataset, Config(log=log, checkpoint=checkpoint), sys.argv[2])
assert first["inputs_trained"] == 1700 and first["auc"] > 0
more = Config(epochs=2, log=log, checkpoint=checkpoint)
second = train(dataset, more, sys.argv[2], resume=True)
assert second["inputs_trained"] == 3400
"""


@pytest.mark.process
def test_data_is_made_and_read_and_a_model_trained_with_torch_numpy_and_numba_alone(tmp_path):
    blocked = {"polars", "pyarrow", "pydantic", "typer", "rich", "matplotlib", "pandas", "yaml"}
    blocked |= {"zstandard", "safetensors", "tensorboard", "tensorflow", "sklearn", "scipy"}
    words = [sys.executable, "-c", SCRIPT.format(blocked=blocked)]
    subprocess.run([*words, str(tmp_path / "set"), str(tmp_path / "run")], check=True)
