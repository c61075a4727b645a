"""The step on a device: everything of it is one recording, replayed for every batch.

A step reads its plan from one block and leaves what it gives in another, both always the same.
The first steps run as they come, which compiles what they need; then one is recorded. Recorded or
not, it is the same work in the same order, and so are the bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from slipstream.config import Config
from slipstream.embedding.device.arena import Arena
from slipstream.embedding.device.carrier import Carrier, Done, given_by
from slipstream.embedding.device.packing import Packing
from slipstream.embedding.tables import Embeddings
from slipstream.models import Model
from slipstream.plan import Plan
from slipstream.training.dense import DensePart
from slipstream.training.engine import Engine, Stepped, weighted_loss
from slipstream.training.flat import PARAMETERS

_BEFORE_RECORDING = 3


class RecordedEngine(Engine):
    """Embedding tables with their fast tier on a device, and a dense part there.

    Args:
        tables: The rows on the host.
        dense: The dense part.
        arena: The fast tier.
        carrier: Carries rows and plans.
        parts: Parts of a batch.
        record: Whether to record steps where that is possible.
        say: Told a sentence that a user should see.
    """

    tells_first = False

    def __init__(
        self,
        tables: Embeddings,
        dense: DensePart,
        arena: Arena,
        carrier: Carrier,
        *,
        parts: int = 1,
        record: bool = True,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        super().__init__(tables, dense)
        self._arena, self._carrier, self._parts, self._say = arena, carrier, parts, say
        self._record = record and arena.device.type == "cuda"
        self._packing: Packing | None = None
        self._recording: torch.cuda.CUDAGraph | None = None
        self._warm = 0

    def prepare(self, plan: Plan, factor: float = 1.0) -> None:
        """Send a coming plan ahead, with `factor` of all learning rates."""
        self._carrier.prepare(plan, factor)

    def step(self, plan: Plan) -> Iterator[Stepped]:
        """Step through a plan that was prepared; gives what earlier steps said by now."""
        sent = self._carrier.arrive(plan)
        if sent.packing is not self._packing:
            self._make_room(sent.packing)
        self._block.copy_(sent.block.device)
        self._carrier.arrived(sent)
        self._run()
        if self.dense.flat is not None:
            self.dense.flat.step_number = plan.step
        self._carrier.leave(plan, self._given, self._out)
        for done in self._carrier.done():
            yield _stepped(done)

    def landed(self) -> Iterator[Stepped]:
        """What all steps that are not told yet said; waits for them."""
        for done in self._carrier.done(wait=True):
            yield _stepped(done)

    def _make_room(self, packing: Packing) -> None:
        """Have blocks for plans that are packed like this."""
        if self._arena.device.type == "cuda":
            torch.cuda.synchronize(self._arena.device)
        self._packing, self._recording, self._warm = packing, None, 0
        self._given = given_by(packing, self._arena)
        device = self._arena.device
        self._block = torch.zeros(packing.sections.bytes, dtype=torch.uint8, device=device)
        self._out = torch.zeros(self._given.bytes, dtype=torch.uint8, device=device)
        beside = torch.zeros(packing.beside.bytes, dtype=torch.uint8, device=device)
        self._plan = packing.sections.tensors(self._block) | packing.beside.tensors(beside)
        self._gives = self._given.tensors(self._out)

    def _run(self) -> None:
        if self._recording is None and self._record and self._warm >= _BEFORE_RECORDING:
            self._try_to_record()
        if self._recording is not None:
            self._recording.replay()
        else:
            self._work()
        self._warm += 1

    def _try_to_record(self) -> None:
        graph = torch.cuda.CUDAGraph()
        try:
            # Other threads go on copying meanwhile.
            with torch.cuda.graph(graph, capture_error_mode="thread_local"):
                self._work()
        except Exception as error:
            self._record = False
            torch.cuda.synchronize(self._arena.device)
            self._say(f"Steps are not recorded, which makes them slower: {error}")
            return
        self._recording = graph

    def _work(self) -> None:
        """One step, from the block of its plan to the block of what it gives."""
        plan, gives = self._plan, self._gives
        self._arena.arrive(plan)
        self._arena.find(plan)
        self._arena.touch(plan)
        losses, logits, embedded = [], [], []
        for part in range(self._parts):
            embedded.append(self._arena.lookup(plan, part))
            logits.append(self.dense.logits(plan["dense"], embedded[-1]))
            weight = plan["weight"]
            if self._parts > 1:
                weight = weight * self._inside(part)
            loss = weighted_loss(logits[-1], plan["labels"], weight, plan["logit_offset"])
            loss.backward()
            losses.append(loss.detach())
        self._arena.move(plan, embedded)
        assert self.dense.flat is not None, "weights that a recorded step moves lie in one row"
        self.dense.flat.move(plan["weights"])
        self._arena.leave(plan, gives)
        told, loss = logits[0].detach(), losses[0]
        for part in range(1, self._parts):
            told = torch.where(self._inside(part), logits[part].detach(), told)
            loss = loss + losses[part]
        gives["logits"].copy_(told)
        gives["loss"].copy_(loss.reshape(1))

    def _inside(self, part: int) -> Tensor:
        numbers = torch.arange(len(self._plan["labels"]), device=self._arena.device)
        first, last = self._plan["spans"][part], self._plan["spans"][part + 1]
        return (numbers >= first) & (numbers < last)


def _stepped(done: Done) -> Stepped:
    pairs = zip(done.plan.groups, done.needs, strict=True)
    needs = sum(count for group, count in pairs if group.cold is not None)
    return Stepped(done.loss, done.logits, done.plan, needs)


def recorded_engine(
    config: Config,
    model: Model,
    slots: Sequence[int],
    *,
    seed: int | None,
    parts: int = 1,
    say: Callable[[str], None] = lambda _: None,
) -> RecordedEngine:
    """An engine with its fast tier on the device of a configuration.

    Args:
        config: Device, precision, and how weights move.
        model: The dense part.
        slots: The size of the fast tier of each group.
        seed: Of the first values of rows; None leaves zeros.
        parts: Parts of a batch.
        say: Told a sentence that a user should see.
    """
    device = torch.device(config.device)
    tables = Embeddings(model.layout, seed=seed, device=device)
    dense = DensePart(
        model,
        config.dense,
        config.precision,
        config.compile == "on",
        device=device,
        recorded=True,
    )
    assert dense.flat is not None, "weights that a recorded step moves lie in one row"
    arena = Arena(model.layout, slots, device)
    exact = any(table.storage == "fp64" for table in model.layout.tables)
    carrier = tables.mover = Carrier(
        tables.stores,
        arena,
        lambda group, rows: tables.before_write(group, rows),
        torch.float64 if exact else torch.float32,
        PARAMETERS,
        dense.flat.set_parameters,
    )
    return RecordedEngine(tables, dense, arena, carrier, parts=parts, say=say)
