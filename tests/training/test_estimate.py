"""What an estimate says is what is allocated, and what a run takes."""

import json
import mmap

import pytest
from command_line import run
from trained import config_of, criteo_data

from slipstream import Dataset, Recipe, synthesize
from slipstream.config import Config
from slipstream.gpu.memory import advice, page_bytes
from slipstream.gpu.planning import plan_ahead
from slipstream.tables.tables import Embeddings
from slipstream.training.build import model_of
from slipstream.training.estimate import estimate
from slipstream.training.process_memory import MemoryPeak, anonymous_bytes

MB = 10**6


def is_near(peak: int, guess: int) -> bool:
    return abs(peak - guess) <= max(0.1 * guess, 200 * MB)


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Dataset:
    return criteo_data(tmp_path_factory.mktemp("criteo"), rows=500)


def test_rows_are_those_of_the_tables(data):
    for optimizer in ("sgd", "adagrad", "rowwise_adagrad", "adam"):
        for storage in ("fp32", "bf16", "split-bf16"):
            settings = (f"embedding.optimizer={optimizer}", f"embedding.storage={storage}")
            config = config_of(data, *settings, "model.dim=5", model="deepfm")
            tables = Embeddings(model_of(config, data).layout)
            assert estimate(data, config).host["rows"] == sum(s.bytes for s in tables.stores)


def test_it_grows_with_what_takes_memory(data):
    base = estimate(data, Config())
    for part, setting in (
        ("rows", "model.dim=64"),
        ("dense", "dense.optimizer=adam"),
        ("activations", "batch_size=4096"),
        ("loader", "batch_size=100000"),
        ("checkpoint", "checkpoint.every_inputs=100"),
        ("process", "compile=on"),
    ):
        more = estimate(data, Config().with_settings([setting]))
        assert more.host[part] > base.host[part], setting


def test_what_only_the_beginning_takes_is_counted_too(data):
    estimated = estimate(data, Config(batch_size=1).with_settings(["init_from=elsewhere"]))
    assert estimated.host["start"] > 100 * MB
    estimated = estimate(data, Config(batch_size=1).with_settings(["model.normalize_dense=true"]))
    assert "start" in estimated.host
    assert "start" not in estimate(data, Config()).host


def test_tables_too_large_for_any_memory_are_no_trouble(data):
    config = Config().with_settings(["model.dim=1000000", "embedding.optimizer=sgd"])
    before = anonymous_bytes()
    estimated = estimate(data, config.with_settings(["model.bottom=[1]", "model.top=[1]"]))
    assert estimated.host["rows"] == 4 * 10**6 * sum(table.rows for table in data.schema.tables)
    assert estimated.to_json()["host_bytes"] == sum(estimated.host.values())
    assert anonymous_bytes() - before < 100 * MB


def test_a_short_peak_is_seen():
    peak = MemoryPeak()
    before = anonymous_bytes()
    # Not by malloc, which may have kept as much of what earlier tests gave back.
    memory = mmap.mmap(-1, 300 * MB, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory[::4096] = b"x" * len(memory[::4096])
    peak._stop.wait(0.1)
    memory.close()
    peak.close()
    assert peak.bytes > before + 250 * MB


@pytest.mark.process
def test_a_small_run_stays_near_its_estimate(tmp_path):
    data = tmp_path / "clicks"
    synthesize(Recipe(rows=20_000), data)
    guess, summary = measured(data, tmp_path / "run", "checkpoint.every_inputs=4000")
    assert is_near(summary["peak_memory_bytes"]["host"], guess["host_bytes"])


@pytest.mark.process
def test_a_run_with_a_gigabyte_of_rows_stays_near_its_estimate(tmp_path):
    data = tmp_path / "clicks"
    synthesize(Recipe("taobao", rows=30_000, min_count=0), data)
    guess, summary = measured(data, tmp_path / "run", "model.dim=48", "evaluate.at=[]")
    assert guess["host"]["rows"] > 900 * MB
    assert is_near(summary["peak_memory_bytes"]["host"], guess["host_bytes"])


def measured(data, out, *settings):
    words = [word for setting in settings for word in ("--set", setting)]
    estimated = estimate(Dataset.open(data), Config().with_settings(settings))
    # In a process of its own: memory that a test has used before would count.
    done = run("train", data, "--out", out, *words)
    assert done.returncode == 0, done.stderr
    return estimated.to_json(), json.loads((out / "summary.json").read_text())


def test_the_memory_of_a_gpu_has_the_fast_tier_and_the_host_has_not(data):
    here, there = (
        estimate(
            data,
            Config(strategy="fast", device=device).with_settings(["placement.fast_memory=100%"]),
        )
        for device in ("cpu", "cuda")
    )
    assert not here.device
    assert set(there.device) == {"fast", "plans", "dense", "activations", "evaluation"}
    assert there.host["fast"] < here.host["fast"]
    assert there.host["activations"] < here.host["activations"]
    assert 0 < there.host["pinned"] < there.device["plans"], "every page is on both"
    plain = estimate(data, Config(strategy="plain", device="cuda"))
    assert set(plain.device) == {"dense", "activations"}
    assert "pinned" not in plain.host | here.host


def test_a_rule_that_leaves_inputs_with_rarer_rows_needs_larger_pages(data):
    wanted = Config(strategy="fast", device="cuda").with_settings(["skip.target=0.5"])
    rules = ("none", "random", "thin", "value")
    grows = [plan_ahead.colder(wanted.with_settings([f"skip.rule={rule}"])) for rule in rules]
    assert grows == [1, 1, 1, 2]
    layout = model_of(wanted, data).layout
    once, twice = (page_bytes(layout, [2000.0], [4000.0], 64, 0, growth) for growth in (1, 2))
    assert 1.9 * once < twice < 2.1 * once


def test_what_does_not_fit_says_what_would():
    parts = {"fast": 8 << 30, "plans": 1 << 30}
    assert "placement.fast_memory to 2764MiB or less" in advice(parts, 4 << 30)
    assert "Use smaller batches" in advice(parts, 1 << 30)
    more = advice({"fast": 1000 << 20, "plans": 1 << 20}, 4 << 30)
    assert "placement.fast_memory to 900MiB or less" in more, "it did not fit as it is"
    assert "fast_memory" not in advice({"dense": 8 << 30}, 4 << 30)
