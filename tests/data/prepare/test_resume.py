"""Killed at any moment and started again, a preparation ends where an uninterrupted one does."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from raw_logs import criteo_rows, digests, write

from slipstream import DataError, Recipe, verify
from slipstream.data.atomic_write import partial_path
from slipstream.data.formats import log_spec
from slipstream.data.prepare import Options, prepare, state
from slipstream.data.prepare.state import State
from slipstream.data.synthetic.raw import write_raw

SCRIPT = """
import sys, time
from pathlib import Path
from unittest.mock import PropertyMock, patch
from slipstream.data.formats import log_spec
from slipstream.data.prepare import Options, prepare
from slipstream.data.prepare.resource_limits import Memory
format, schema, file, out = sys.argv[1:5]
spec = log_spec(format, {"schema": schema or None})
# Small pieces, so that there are many moments to be killed at.
with (
    patch.object(Memory, "block", new_callable=PropertyMock, return_value=60_000),
    patch.object(Memory, "keys", new_callable=PropertyMock, return_value=1_500),
    patch.object(Memory, "rows", lambda *_: 700),
):
    print("ready", flush=True)
    prepare(spec, [file], out, Options(rows_per_shard=3000, bad_rows="skip"))
"""
TABLE = """
categorical:
  - {name: user, field: user, values: int}
  - {name: item, field: item}
time: time
sort: time
negatives: {per_positive: 2, from: item, seed: 3}
history: {user: user, length: 5}
names: [user, item, category, behaviour, time]
"""


def start(format: str, schema: str, file: Path, out: Path) -> subprocess.Popen:
    words = [sys.executable, "-c", SCRIPT, format, schema, str(file), str(out)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "POLARS_MAX_THREADS": "2"}
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)


def finish(process: subprocess.Popen) -> None:
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors.decode()


@pytest.mark.process
@pytest.mark.parametrize("format", ["criteo", "table"])
def test_killed_at_random_moments_the_bytes_are_the_same(tmp_path, format):
    schema = ""
    if format == "criteo":
        file = write(tmp_path / "log.tsv", criteo_rows(4000))
        lines = file.read_bytes().splitlines(keepends=True)
        lines[100] = lines[2500] = b"1\t2\n"  # bad rows, which must be set aside once each
        file.write_bytes(b"".join(lines))
    else:
        file = tmp_path / "log.csv"
        write_raw(Recipe("taobao", rows=12_000, seed=1), file)
        (tmp_path / "schema.yaml").write_text(TABLE)
        schema = str(tmp_path / "schema.yaml")
    whole = start(format, schema, file, tmp_path / "whole")
    whole.stdout.readline()
    begun = time.monotonic()
    finish(whole)
    lasts = time.monotonic() - begun
    out, chance, kills = tmp_path / "out", random.Random(5), 0
    for _ in range(40):
        if out.exists() and not (tmp_path / "out.partial").exists():
            if kills >= 2:
                break
            # The first run was on a busier machine than this one: again, with less time.
            shutil.rmtree(out)
            lasts, kills = lasts / 2, 0
        process = start(format, schema, file, out)
        process.stdout.readline()
        time.sleep(lasts * chance.uniform(0.05, 0.6))
        if process.poll() is not None:
            finish(process)
            continue
        process.send_signal(signal.SIGKILL)
        process.communicate()
        kills += 1
        assert not out.exists() or digests(out) == digests(tmp_path / "whole")
    else:
        finish(start(format, schema, file, out))
    assert kills >= 2, "it must have been killed for this to show anything"
    assert digests(out) == digests(tmp_path / "whole")
    assert verify(out) == []
    assert not (tmp_path / "out.partial").exists()


class Stop(BaseException):
    """Stands for a kill: nothing catches it."""


def stopped_after(saves: int, spec, file: Path, out: Path, monkeypatch) -> bool:
    """Run until the note of what is done was saved so often; whether it was stopped then."""
    count, save = 0, State.save

    def counting(self):
        nonlocal count
        save(self)
        count += 1
        if count == saves:
            raise Stop

    monkeypatch.setattr(State, "save", counting)
    try:
        prepare(spec, [file], out, Options(rows_per_shard=1000))
    except Stop:
        return True
    finally:
        monkeypatch.setattr(State, "save", save)
    return False


def test_stopped_after_any_step_the_bytes_are_the_same(tmp_path, monkeypatch):
    file = tmp_path / "log.csv"
    write_raw(Recipe("taobao", rows=1500, seed=2), file)
    spec = log_spec("taobao", {"history": 3, "negatives": 2})
    prepare(spec, [file], tmp_path / "whole", Options(rows_per_shard=1000))
    saves = 1
    while stopped_after(saves, spec, file, tmp_path / "out", monkeypatch):
        resumed = tmp_path / f"resumed{saves}"
        (tmp_path / "out.partial").rename(tmp_path / f"resumed{saves}.partial")
        prepare(spec, [file], resumed, Options(rows_per_shard=1000))
        assert digests(resumed) == digests(tmp_path / "whole"), saves
        saves += 1
    assert saves > 8


def test_another_command_starts_anew(tmp_path, monkeypatch):
    file = write(tmp_path / "log.tsv", criteo_rows(50))
    spec, out = log_spec("criteo", {}), tmp_path / "out"
    assert stopped_after(3, spec, file, out, monkeypatch)
    prepare(spec, [file], out, Options(min_count=1))
    prepare(spec, [file], tmp_path / "whole", Options(min_count=1))
    assert digests(out) == digests(tmp_path / "whole")


def test_a_log_that_changed_meanwhile_starts_anew(tmp_path, monkeypatch):
    file = write(tmp_path / "log.tsv", criteo_rows(50))
    spec, out = log_spec("criteo", {}), tmp_path / "out"
    assert stopped_after(3, spec, file, out, monkeypatch)
    write(file, criteo_rows(60, seed=9))
    prepare(spec, [file], out)
    prepare(spec, [file], tmp_path / "whole")
    assert digests(out) == digests(tmp_path / "whole")


def test_killed_between_naming_and_cleaning_up_the_same_command_succeeds(tmp_path, monkeypatch):
    file = write(tmp_path / "log.tsv", criteo_rows(50))
    spec, out = log_spec("criteo", {}), tmp_path / "out"
    from slipstream.data.prepare import run

    def named_and_killed(*words):
        publish(*words)
        raise Stop

    publish = run.publish
    monkeypatch.setattr(run, "publish", named_and_killed)
    with pytest.raises(Stop):
        prepare(spec, [file], out)
    monkeypatch.setattr(run, "publish", publish)
    assert (tmp_path / "out.partial").exists()
    before = digests(out)
    prepare(spec, [file], out)
    assert digests(out) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log.tsv", "out"]


def test_killed_while_cleaning_up_the_same_command_succeeds(tmp_path, monkeypatch):
    from slipstream.data.prepare import run

    file = tmp_path / "log.csv"
    write_raw(Recipe("taobao", rows=300, seed=2), file)
    spec, out = log_spec("taobao", {}), tmp_path / "out"
    publish, unlink = run.publish, Path.unlink

    def killed_at_the_first_file(path, missing_ok=False):
        if path.parent.name == "out.partial":
            raise Stop
        unlink(path, missing_ok)

    def named(*words):
        publish(*words)
        monkeypatch.setattr(Path, "unlink", killed_at_the_first_file)

    monkeypatch.setattr(run, "publish", named)
    with pytest.raises(Stop):
        prepare(spec, [file], out)
    monkeypatch.undo()
    assert (tmp_path / "out.partial" / "state.json").exists()
    before = digests(out)
    prepare(spec, [file], out)
    assert digests(out) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log.csv", "out"]


@pytest.mark.parametrize("is_folder", [True, False])
def test_what_others_left_where_it_works_is_kept(tmp_path, is_folder):
    file, other_values = write(tmp_path / "log.tsv", criteo_rows(50)), tmp_path / "out.partial"
    if is_folder:
        other_values.mkdir()
        other_values /= "thesis.txt"
    other_values.write_text("mine")
    with pytest.raises(DataError, match=r"out\.partial .* was not left by a preparation"):
        prepare(log_spec("criteo", {}), [file], tmp_path / "out")
    assert other_values.read_text() == "mine"


@pytest.mark.parametrize(
    ("before", "after", "goes_on"), [("a", "a", True), ("a", "b", False), (None, None, False)]
)
def test_only_what_was_done_since_the_machine_started_is_gone_on_with(
    tmp_path, monkeypatch, before, after, goes_on
):
    monkeypatch.setattr(state, "_boot", lambda: before)
    State(tmp_path / "work", "this command")
    monkeypatch.setattr(state, "_boot", lambda: after)
    assert State(tmp_path / "work", "this command").resumed == goes_on


def extended_in_place(folder: Path, monkeypatch, kill) -> dict[str, str]:
    """Extend a data set under its own name; killed while it is named, and started again."""
    from slipstream.data.prepare import run

    spec, out = log_spec("criteo", {}), folder / "out"
    prepare(spec, [write(folder / "day1.tsv", criteo_rows(50))], out, Options(min_count=1))
    second = write(folder / "day2.tsv", criteo_rows(50, seed=1))
    options = Options(min_count=1, dictionary=out, extend=True)
    if kill is not None:
        monkeypatch.setattr(run, "publish", kill)
        with pytest.raises(Stop):
            prepare(spec, [second], out, options, force=True)
        monkeypatch.undo()
    prepare(spec, [second], out, options, force=True)
    assert sorted(path.name for path in folder.iterdir()) == ["day1.tsv", "day2.tsv", "out"]
    return digests(out)


def killed_before(*words):
    raise Stop


def killed_half_way(work, out, force):
    out.rename(out.with_name("out.partial.old"))
    raise Stop


def killed_after(work, out, force):
    out.rename(out.with_name("out.partial.old"))
    work.rename(out)
    raise Stop


@pytest.mark.parametrize("kill", [killed_before, killed_half_way, killed_after])
def test_a_data_set_that_is_extended_in_place_is_extended_once(tmp_path, monkeypatch, kill):
    for name in ("whole", "killed"):
        (tmp_path / name).mkdir()
    whole = extended_in_place(tmp_path / "whole", monkeypatch, None)
    assert extended_in_place(tmp_path / "killed", monkeypatch, kill) == whole


def test_a_defect_says_where_what_is_done_is_kept_and_what_to_do(tmp_path, monkeypatch):
    from slipstream.data.prepare import run

    file = write(tmp_path / "log.tsv", criteo_rows(50))
    spec, out = log_spec("criteo", {}), tmp_path / "out"
    pack = run.pack
    monkeypatch.setattr(run, "pack", lambda *_: 1 // 0)
    with pytest.raises(RuntimeError, match=r"defect.* kept in .*out\.partial.* remove it") as error:
        prepare(spec, [file], out)
    assert isinstance(error.value.__cause__, ZeroDivisionError)
    assert (tmp_path / "out.partial").exists()
    monkeypatch.setattr(run, "pack", pack)
    prepare(spec, [file], out)
    prepare(spec, [file], tmp_path / "whole")
    assert digests(out) == digests(tmp_path / "whole")


def test_two_runs_at_once_are_refused(tmp_path):
    file = write(tmp_path / "log.tsv", criteo_rows(50))
    out = tmp_path / "held"
    with partial_path(out), pytest.raises(DataError, match="Another process"):
        prepare(log_spec("criteo", {}), [file], out)
    prepare(log_spec("criteo", {}), [file], out)
