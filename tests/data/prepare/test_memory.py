"""Memory stays within the bound, with data that does not fit it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from slipstream import Dataset
from slipstream.data.key_table import bytes_needed

SCRIPT = """
import sys, threading, time
from slipstream.data.formats import log_spec
from slipstream.data.prepare import Options, prepare
from slipstream.training.process_memory import anonymous_bytes
peak, done = 0, False
def watch():
    global peak
    while not done:
        peak = max(peak, anonymous_bytes())
        time.sleep(0.005)
thread = threading.Thread(target=watch, daemon=True)
thread.start()
prepare(
    log_spec("table", {"schema": sys.argv[1]}),
    [sys.argv[2]],
    sys.argv[3],
    Options(memory=512 << 20, min_count=1, validation=0, evaluation=0),
)
done = True
thread.join()
print(peak)
"""
ROWS = 2_100_000


def prepares_within_512_mib(folder, schema, log):
    words = [sys.executable, "-c", SCRIPT, str(schema), str(folder / log), str(folder / "out")]
    process = subprocess.run(words, capture_output=True, text=True, timeout=300)
    assert process.returncode == 0, process.stderr
    assert int(process.stdout) <= 512 << 20, f"{int(process.stdout) >> 20} MiB"


@pytest.mark.process
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="no /proc: not tested here")
def test_512_mib_are_enough_for_tables_that_would_take_more(tmp_path):
    rng = np.random.default_rng(0)
    # Nearly all values are different: the lookups alone would take more than the memory.
    columns = {f"c{n}": rng.permutation(ROWS) * 7919 + n for n in range(4)}
    words = pl.Series(columns["c0"]).cast(pl.String) + "-word"
    frame = pl.DataFrame({**columns, "word": words, "time": rng.permutation(ROWS)})
    frame.write_csv(tmp_path / "log.csv")
    assert 5 * bytes_needed(ROWS) > 512 << 20
    schema = tmp_path / "schema.yaml"
    names = "".join(f"  - {{name: c{n}, values: int}}\n" for n in range(4))
    schema.write_text(f"categorical:\n{names}  - word\ntime: time\nsort: time\n")
    prepares_within_512_mib(tmp_path, schema, "log.csv")
    result = Dataset.open(tmp_path / "out")
    assert [table.rows for table in result.schema.tables] == [ROWS + 1] * 5
    order = np.argsort(frame["time"].to_numpy())[:100]
    for place, name in enumerate(["c0", "c1", "c2", "c3", "word"]):
        dictionary = result.dictionary(name)
        ids = result.train.shards[0].ids[:100, place].tolist()
        assert [dictionary.raw(row) for row in ids] == [str(frame[name][int(r)]) for r in order]


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="no /proc: not tested here")
def test_a_parquet_file_of_one_large_row_group_stays_within_the_memory(tmp_path):
    rows = 10_000_000
    rng = np.random.default_rng(0)
    frame = pl.DataFrame({f"c{n}": rng.integers(0, 50, rows) for n in range(8)})
    frame.write_parquet(tmp_path / "log.parquet", row_group_size=rows)
    schema = tmp_path / "schema.yaml"
    schema.write_text(f"categorical: [{', '.join(frame.columns)}]\n")
    prepares_within_512_mib(tmp_path, schema, "log.parquet")
