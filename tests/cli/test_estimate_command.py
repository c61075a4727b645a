"""`slipstream estimate` as a user meets it."""

import inspect

import pytest
from in_process import run
from trained import criteo_data

from slipstream.cli.estimate import estimate
from slipstream.cli.train import train


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return criteo_data(tmp_path_factory.mktemp("criteo"), rows=300).folder


def test_the_parts_are_a_table(data):
    done = run("estimate", data, "--model", "dcn", "--batch-size", 64, "--stop", 100)
    assert done.exit_code == 0, done.stderr
    for part in ("process", "rows", "dense", "activations", "loader", "checkpoint", "sum"):
        assert f"\n{part} " in done.stdout


def test_it_takes_the_options_of_train():
    of_train = inspect.signature(train).parameters.keys() - {"to", "resume", "force"}
    assert "fast_memory" in of_train
    assert of_train <= inspect.signature(estimate).parameters.keys()


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ("model.sizes=3", "model.sizes"),
        ("strategy=plan", "Did you mean plain?"),
        ("precision=fp31", "precision"),
        ("dense.l=3", "Did you mean dense.lr?"),
    ],
)
def test_what_train_would_refuse_is_refused(setting, sentence, data):
    done = run("estimate", data, "--set", setting)
    assert done.exit_code == 2
    assert sentence in done.stderr
