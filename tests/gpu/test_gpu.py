"""What a GPU trains beside what a CPU does; needs one."""

import json
import os

import command_line
import pytest
from in_process import run

from slipstream import Dataset, Recipe, estimate, synthesize
from slipstream.config import Config
from slipstream.training.loop import train

pytestmark = pytest.mark.needs("cuda")
DEVICE = os.environ.get("SLIPSTREAM_TEST_DEVICE", "cuda")
SIZES = ("model.bottom=[32]", "model.top=[32]", "model.dim=8", "log.trackers=[]")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """All columns are single: plans that a device finishes. Rows for the size of a test."""
    made = tmp_path_factory.mktemp("gpu") / "clicks"
    return synthesize(Recipe("effects", 24_000, exponent=1.05, min_count=0), made)


@pytest.fixture(scope="module")
def lists(tmp_path_factory):
    """With a list: plans that the host works out whole."""
    return synthesize(Recipe("small", 24_000), tmp_path_factory.mktemp("gpu") / "small")


def wanted(strategy, device, *settings):
    keys = (*SIZES, "placement.fast_memory=30%", "evaluate.at=[]", *settings)
    return Config(strategy=strategy, batch_size=256, device=device).with_settings(keys)


@pytest.mark.parametrize("strategy", ["plain", "fae", "hotline", "bagpipe", "slipstream", "fast"])
@pytest.mark.parametrize("kind", ["folder", "lists"])
def test_every_strategy_ends_where_it_ends_on_a_cpu(strategy, kind, tmp_path, request):
    data = Dataset.open(request.getfixturevalue(kind))
    # Kept rows are chosen alike, so that both have the same batches.
    own = ("skip.options.warmup_batches=5", "skip.lag=10") if strategy == "slipstream" else ()
    ours, theirs = (
        train(data, wanted(strategy, device, *own), tmp_path / device, force=True)
        for device in (DEVICE, "cpu")
    )
    assert ours["inputs_trained"] == pytest.approx(theirs["inputs_trained"], rel=0.02)
    assert ours["logloss"] == pytest.approx(theirs["logloss"], abs=2e-3)
    assert ours["auc"] == pytest.approx(theirs["auc"], abs=3e-3)


def test_the_size_of_the_fast_tier_makes_no_difference_to_a_bit(folder, tmp_path):
    digests = {
        train(
            Dataset.open(folder),
            wanted(strategy, DEVICE, f"placement.fast_memory={size}"),
            tmp_path / f"{strategy}-{size}",
        )["weights_digest"]
        for strategy, size in (
            *(("fast", "20%"), ("fast", "45%"), ("fast", "100%")),
            *(("bagpipe", "25%"), ("bagpipe", "100%")),
        )
    }
    assert len(digests) == 1


@pytest.mark.parametrize(
    ("strategy", "size"),
    [
        *(("fast", "20%"), ("fast", "50%"), ("fast", "100%"), ("bagpipe", "20%")),
        *(("bagpipe", "60%"), ("fae", "20%"), ("fae", "50%"), ("hotline", "30%")),
    ],
)
def test_verify_holds_by_the_command(strategy, size, folder):
    words = ["verify", folder, "--strategy", strategy, "--device", DEVICE, "--steps", 12]
    words += ["--fast-memory", size, "--batch-size", 256]
    for one in SIZES:
        words += ["--set", one]
    ended = run(*words)
    assert ended.exit_code == 0, ended.output
    assert ended.stdout.count(": holds") == 2


@pytest.mark.parametrize("batch", [1024, 16384])
def test_the_memory_of_the_device_is_near_its_estimate(batch, tmp_path):
    data = synthesize(Recipe("criteo-kaggle", 150_000, min_count=0), tmp_path / "clicks")
    keys = ["placement.fast_memory=20%", "evaluate.at=[]", "log.trackers=[]", "compile=off"]
    config = Config(strategy="fast", batch_size=batch, device=DEVICE).with_settings(keys)
    config.write(tmp_path / "config.yaml")
    # In a process of its own: memory that a test has used before would count.
    done = command_line.run(
        "train", data, "--out", tmp_path / "run", "--config", tmp_path / "config.yaml"
    )
    assert done.returncode == 0, done.stderr
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    told = sum(estimate(Dataset.open(data), config).device.values())
    assert told == pytest.approx(summary["peak_memory_bytes"]["device"], rel=0.1)
