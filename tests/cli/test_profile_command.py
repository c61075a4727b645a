"""`slipstream profile` as a user meets it."""

import json

import pytest
from command_line import run

pytestmark = pytest.mark.process
FEW = ("--sample-batches", 9, "--set", "batch_size=64")


@pytest.fixture(scope="module")
def clicks(tmp_path_factory):
    out = tmp_path_factory.mktemp("profile") / "clicks"
    assert run("synth", "--rows", 6_000, "--out", out).returncode == 0
    return out


def test_a_profile_prints_tables(clicks):
    done = run("profile", clicks, *FEW)
    assert done.returncode == 0, done.stderr
    for words in (
        "dlrm, ",
        "with optimizer state",
        "9 batches of 64 planned, the middle 3 counted",
        "20% popular+lookahead",
        "Fast memory of auto",
        "The least that works is",
    ):
        assert words in done.stdout


def test_a_profile_as_json_has_it_all_and_knows_the_models_tables(clicks):
    words = ("profile", clicks, *FEW, "--set", "model.dim=16", "--json", "--fast-memory", "50%")
    plain, deep = (json.loads(run(*words, "--model", m).stdout) for m in ("dlrm", "deepfm"))
    assert plain["row_bytes"] == [68]  # 16 elements and a state of row-wise Adagrad
    assert deep["row_bytes"] == [68, 8]
    assert deep["rows"] == 2 * plain["rows"]
    assert deep["bytes"] == plain["bytes"] * (68 + 8) // 68
    assert plain["fast_memory"]["bytes"] == round(plain["bytes"] / 2)
    coverage = plain["coverage"]
    shares = [rows["access_share"] for rows in coverage]
    assert shares == pytest.approx([0.5, 0.75, 0.9, 0.95, 0.99], abs=0.01)
    for name in ("bytes", "rows"):
        values = [rows[name] for rows in coverage]
        assert values == sorted(values)
    outcomes = plain["what_if"]["outcomes"]
    assert len(outcomes) == 5 * 3
    assert all(0 <= outcome["hit_rate"] <= 1 for outcome in outcomes)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--fast-memory", "1KiB"), "too small: no batch fits"),
        (("--fast-memory", "much"), "256MiB"),
        (("--model", "dlmr"), "Did you mean dlrm?"),
        (("--set", "batchsize=3"), "batch_size"),
    ],
)
def test_mistakes_end_with_a_sentence(clicks, words, sentence):
    done = run("profile", clicks, *words)
    assert done.returncode == 2
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr


def test_help_has_an_example():
    done = run("profile", "--help")
    assert "Example: slipstream profile clicks" in " ".join(done.stdout.split())
