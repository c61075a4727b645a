"""Runs `slipstream` again and again and kills it: at a random moment, or at a chosen one.

Imports take seconds, and a child made by fork does not repeat them: more kills in the time.
"""

from __future__ import annotations

import json
import mmap
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
BF16_ADAGRAD = (
    "embedding.optimizer=rowwise_adagrad",
    "embedding.storage=split-bf16",
    "dense.optimizer=adagrad",
    "precision=bf16",
)
PHASES = (
    "starting up",
    "loading a checkpoint",
    "training",
    "evaluating",
    "evaluating at the end",
    "writing the summary",
    "after the summary",
)
SAVING = 1 << 7
TIMES = ("train_seconds", "samples_per_second", "phase_seconds", "waits", "peak_memory_bytes")
POINTS = (
    "Run.begin",
    "Run.write_config",
    "Run.write_summary",
    "Lines.write",
    "Lines.flush",
    "Trainer.start",
    "Trainer._evaluate",
    "Trainer._validate",
    "Trainer._save",
    "Trainer.finish",
    "Save.write_rows",
    "Save.finish",
    "folders.put_in_place",
    "folders.retire",
)


class Ended(NamedTuple):
    """How a command ended.

    Args:
        killed: Whether it was killed, rather than ending by itself.
        status: Its exit status, or the signal.
        phase: What it was doing.
        saving: Whether a checkpoint was being written meanwhile.
        output: What it printed.
    """

    killed: bool
    status: int
    phase: str
    saving: bool
    output: str


class Nursery:
    """A process with everything imported, that runs each command in a child of its own."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self.output = Path(self._folder.name) / "output"
        self.phase = Path(self._folder.name) / "phase"
        code = (
            "import sys; sys.path.insert(0, sys.argv[1]); import kills; kills.nurse(*sys.argv[2:])"
        )
        self._process = subprocess.Popen(
            [sys.executable, "-c", code, str(HERE), str(self.output), str(self.phase)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "COLUMNS": "200", "NO_COLOR": "1", "OMP_NUM_THREADS": "1"},
        )
        assert self._process.stdout.readline() == "ready\n"

    def run(self, *words, after=None, at=None, when=None, send=(signal.SIGKILL,)) -> Ended:
        """Run a command and send it signals: `after` so many seconds, or `when` something holds.

        Or have it kill itself `at` a point, such as `("Save.finish", 2, "before")`: before the
        second call of it.
        """
        order = {"words": [str(word) for word in words], "at": at}
        print(json.dumps(order), file=self._process.stdin, flush=True)
        pid = int(self._process.stdout.readline())
        if when is not None:
            latest = time.monotonic() + 60
            while not when() and time.monotonic() < latest:
                time.sleep(0.005)
        for number in send if after is not None or when is not None else ():
            time.sleep(after or 0.01)
            with suppress(ProcessLookupError):  # it had ended before
                os.kill(pid, number)
        status = int(self._process.stdout.readline())
        number = self.phase.read_bytes()[0]
        return Ended(
            killed=os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL,
            status=os.WEXITSTATUS(status) if os.WIFEXITED(status) else os.WTERMSIG(status),
            phase=PHASES[number & ~SAVING],
            saving=bool(number & SAVING),
            output=self.output.read_text(),
        )

    def doing(self, phase: str) -> bool:
        """Whether the command is in that phase now."""
        shown = self.phase.read_bytes()
        return bool(shown) and PHASES[shown[0] & ~SAVING] == phase

    def __enter__(self) -> Nursery:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.stdin.close()
        self._process.wait(60)
        self._process.stdout.close()
        self._folder.cleanup()


def nurse(output: str, phase: str) -> None:
    """What the nursery does: a child for each line that comes in."""
    import slipstream.cli

    _warm()
    print("ready", flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        Path(phase).write_bytes(b"\0")
        child = os.fork()
        if not child:
            with open(output, "wb", buffering=0) as file:  # noqa: PTH123
                os.dup2(file.fileno(), 1)
                os.dup2(file.fileno(), 2)
            _be_watched(phase)
            if order["at"]:
                _die_at(*order["at"])
            sys.argv = ["slipstream", *order["words"]]
            _end_with(slipstream.cli.main)
        print(child, flush=True)
        print(os.waitpid(child, 0)[1], flush=True)


def _end_with(main: Callable[[], None]) -> None:
    """Do it and end the process, without the second that Python takes to tidy up."""
    status = 0
    try:
        main()
    except SystemExit as end:
        status = end.code or 0
    except BaseException:
        traceback.print_exc()
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _warm() -> None:
    """Load all that a first step loads; all but a backward pass, which a fork does not survive."""
    import numpy as np
    import torch
    import torch._dynamo  # optimizers ask for it
    import torch.utils.tensorboard

    import slipstream
    from slipstream.config import Config
    from slipstream.config.sections import EmbeddingSettings
    from slipstream.tables.plan import Planner
    from slipstream.training import build, loop  # noqa: F401
    from slipstream.training.placement import slow_placement

    lists = slipstream.Lists.of([[0, 1], [], [1]] * 4, "sequence")
    columns = {"a": np.arange(12) % 3, "b": lists}
    dataset = slipstream.from_arrays(np.arange(12) % 2, columns, dense={"d": np.zeros(12)})
    for storage in ("fp32", "split-bf16"):
        config = Config(embedding=EmbeddingSettings(storage=storage))
        model = build.model_of(config, dataset)
        engine = build.engine_of(config, model, 0)
        planner = Planner(slow_placement(model.layout, dataset))
        batch = next(slipstream.Loader(dataset.train, 4))
        (plan,) = planner.plans([batch])
        engine.predict(plan)
        embedded = engine.tables.lookup(plan.groups)
        for vectors in embedded.vectors:
            vectors.grad = torch.zeros_like(vectors)
        engine.tables.update(plan.groups, embedded, step=1)


def _owners() -> dict[str, object]:
    from slipstream.training.checkpoint import folders
    from slipstream.training.checkpoint.save import Save
    from slipstream.training.loop import Trainer
    from slipstream.training.run import Lines, Run

    return {"Run": Run, "Lines": Lines, "Trainer": Trainer, "Save": Save, "folders": folders}


def _be_watched(path: str) -> None:
    """Keep in a file what this process is doing, also for who looks after it was killed."""
    with Path(path).open("r+b") as file:
        shown = mmap.mmap(file.fileno(), 1)
    owners = _owners()

    def show(owner: str, name: str, phase: str | None, then: str | None = None) -> None:
        call = getattr(owners[owner], name)

        def watched(self, *args):
            number, before = SAVING, shown[0] & ~SAVING
            if phase is not None:
                last = phase == "evaluating" and self.state.ended
                number = PHASES.index("evaluating at the end" if last else phase)
                shown[0] = shown[0] & SAVING | number
            else:
                shown[0] |= SAVING
            try:
                return call(self, *args)
            finally:
                if phase is None:
                    shown[0] &= ~SAVING
                else:
                    shown[0] = shown[0] & SAVING | (PHASES.index(then) if then else before)

        setattr(owners[owner], name, watched)

    show("Trainer", "start", "loading a checkpoint", "training")
    show("Trainer", "_evaluate", "evaluating")
    show("Run", "write_summary", "writing the summary", "after the summary")
    show("Save", "write_rows", None)
    show("Save", "finish", None)


def _die_at(point: str, count: int, when: str) -> None:
    owner, _, name = point.partition(".")
    owner = _owners()[owner]
    call, seen = getattr(owner, name), 0

    def deadly(*args):
        nonlocal seen
        seen += 1
        if seen == count and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        result = call(*args)
        if seen == count and when == "after":
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(owner, name, deadly)


def outcome(run: Path) -> dict[str, object]:
    """All that a run leaves and that must not depend on what happened to it: times aside."""
    summary = json.loads((run / "summary.json").read_text())
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return {
        "summary": {key: value for key, value in summary.items() if key not in TIMES},
        "lines": [{k: v for k, v in line.items() if k not in TIMES} for line in lines],
        "files": sorted(path.name for path in run.iterdir()),
        "checkpoints": sorted(path.name for path in (run / "checkpoints").iterdir()),
    }


def words_for(run: Path, begin: list[str]) -> list[str]:
    """The command that begins a run, or goes on with it."""
    begun = (run / "config.yaml").is_file()
    return ["train", "--resume", "--out", str(run)] if begun else [*begin, "--out", str(run)]


def kill_until_it_ends(nursery, run, begin, chance, longest, kills=1000) -> list[Ended]:
    """Begin a run and kill it at random, at most so often, until it comes to its end."""
    ends = []
    while True:
        after = chance.uniform(0, longest) if len(ends) < kills else None
        ended = nursery.run(*words_for(run, begin), after=after)
        if not ended.killed:
            assert ended.status == 0, ended.output
            return ends
        ends.append(ended)
