"""Makes a packed data set of built-in data: a pass that counts, ranks, and a pass that writes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from slipstream.data.aside import check_free
from slipstream.data.dictionary import Dictionary
from slipstream.data.inputs import Array, Inputs, Ragged
from slipstream.data.layout import PARTS
from slipstream.data.ranking import Ranking, rank
from slipstream.data.schema import Column, Schema, Table
from slipstream.data.synthetic.bits import key, scramble32
from slipstream.data.synthetic.drift import Drift
from slipstream.data.synthetic.shapes import TableShape, shape_named
from slipstream.data.synthetic.teacher import Tally, Teacher, dense_values
from slipstream.data.synthetic.world import MISSING_VALUE, RawInputs, RawList, World
from slipstream.data.writer import DatasetWriter
from slipstream.errors import ConfigError

VALIDATION, EVALUATION = 0.05, 0.10
Progress = Callable[[int], None]


@dataclass(frozen=True)
class Recipe:
    """What built-in data is made from: the same recipe gives the same bytes.

    Args:
        shape: small, effects, criteo-kaggle, avazu or taobao.
        rows: Inputs in all three parts together.
        seed: Of everything random.
        positives: The share of positive labels; the shape's own by default.
        exponent: Of every table's power law; the shape's own by default.
        drift: How popularity and the teacher change, such as `popularity=gradual`.
        min_count: Values seen less often in training share one id; 0 keeps all of the shape's
            rows, drawn or not.
    """

    shape: str = "small"
    rows: int = 100_000
    seed: int = 0
    positives: float | None = None
    exponent: float | None = None
    drift: str = "none"
    min_count: int = 2

    def __post_init__(self) -> None:
        shape_named(self.shape)
        Drift.parse(self.drift)
        if self.rows < 1:
            raise ConfigError(f"rows is {self.rows}; it must be at least 1.")
        if self.positives is not None and not 0.001 <= self.positives <= 0.999:
            raise ConfigError(f"positives is {self.positives:g}; choose from 0.001 to 0.999.")
        if self.exponent is not None and not 0 <= self.exponent <= 4:
            raise ConfigError(f"exponent is {self.exponent:g}; choose from 0 to 4.")
        if self.min_count < 0:
            raise ConfigError(f"min_count is {self.min_count}; it must be at least 0.")

    def world(self, device: str) -> World:
        """What the inputs are drawn from."""
        shape = shape_named(self.shape)
        if self.exponent is not None:
            shape = shape.with_exponent(self.exponent)
        return World(shape, self.rows, self.seed, Drift.parse(self.drift), device)

    def teacher(self, world: World) -> Teacher:
        """What labels them."""
        return Teacher(world, self.share)

    @property
    def share(self) -> float:
        """The share of positive labels, the shape's own where none is chosen."""
        return self.positives or shape_named(self.shape).positives

    def parts(self) -> dict[str, tuple[int, int]]:
        """The first input of each part, and the one behind its last; evaluation comes last."""
        first = self.rows - round(self.rows * EVALUATION)
        middle = first - round(self.rows * VALIDATION)
        return dict(zip(PARTS, ((0, middle), (middle, first), (first, self.rows)), strict=True))


def synthesize(
    recipe: Recipe,
    out: str | Path,
    *,
    force: bool = False,
    device: str = "cpu",
    progress: Progress = lambda _: None,
) -> Path:
    """Make a packed data set.

    Args:
        recipe: What to make.
        out: The folder to make it in.
        force: Replace a data set that is already there.
        device: Where to compute; the bytes do not depend on it.
        progress: Called with a number of rows done; each row is done twice.

    Example:
        >>> synthesize(Recipe(rows=10_000), "more-clicks").name
        'more-clicks'
    """
    check_free(Path(out).resolve(), force)  # now, not after minutes of work
    world = recipe.world(device)
    parts = recipe.parts()
    counts = _count(world, parts["train"][1], progress)
    progress(recipe.rows - parts["train"][1])
    tables = {t.name: _RankedTable(t, counts.pop(t.name), recipe) for t in world.shape.tables}
    schema = _schema(world, tables)
    source = {"kind": "synthetic", **asdict(recipe), "positives": recipe.share, "files": []}
    packer = _Packer(schema, world, recipe.teacher(world), tables)
    oracle = {}
    with DatasetWriter(out, schema, source=source, force=force) as writer:
        for part, (start, stop) in parts.items():
            tally = Tally.empty()
            for inputs, labels, bins in world.map(packer.pack, start, stop):
                tally.add(bins, labels)
                writer.append(part, inputs)
                progress(len(inputs))
            scores = tally.scores()
            if scores:
                oracle[part] = scores
        return writer.finish(
            {name: table.ranking.counts for name, table in tables.items()},
            {name: table.dictionary for name, table in tables.items()},
            oracle=oracle,
        )


class _RankedTable:
    """A table once its values are counted."""

    def __init__(self, shape: TableShape, counts: Array, recipe: Recipe) -> None:
        def raw(values: Array) -> Array:
            return raw_values(shape, torch.from_numpy(values), recipe.seed).numpy()

        self.shape = shape
        self.ranking: Ranking = rank(counts, min_count=recipe.min_count, ties=raw)
        self.ids = self.ranking.ids.astype(np.int32)
        make = Dictionary.of_hex if shape.values == "hex" else Dictionary.of_int
        self.dictionary = make(raw(self.ranking.values))

    def table(self) -> Table:
        missing = int(self.ranking.ids[MISSING_VALUE]) if self.shape.missing else None
        unseen = self.ranking.unseen
        return Table(
            self.shape.name,
            len(self.ranking.counts),
            unseen,
            None if missing == unseen else missing,
            self.shape.values,
        )


def raw_values(table: TableShape, numbers: Tensor, seed: int) -> Tensor:
    """What the values of a table look like in a raw log."""
    if table.values == "hex":
        return scramble32(numbers, key(seed, "raw", table.name) & 0xFFFFFFFF)
    return numbers


def _count(world: World, stop: int, progress: Progress) -> dict[str, Array]:
    """How often each value of each table is drawn in the training part."""
    counts = {
        t.name: torch.zeros(t.rows, dtype=torch.int64, device=world.device)
        for t in world.shape.tables
    }
    for raw in world.map(partial(world.draw, ids_only=True), 0, stop):
        for column in world.shape.columns:
            drawn = raw.columns[column.name]
            values = drawn.values[drawn.mask] if isinstance(drawn, RawList) else drawn
            counts[column.table].scatter_add_(0, values, torch.ones_like(values))
        progress(len(raw.rows))
    return {name: tensor.cpu().numpy() for name, tensor in counts.items()}


def _schema(world: World, tables: dict[str, _RankedTable]) -> Schema:
    return Schema(
        tables=tuple(table.table() for table in tables.values()),
        columns=tuple(Column(c.name, c.table, c.kind) for c in world.shape.columns),
        dense=tuple(f"I{number + 1}" for number in range(world.shape.dense)),
        label="click",
        times=world.shape.seconds > 0,
    )


class _Packer:
    """Turns inputs as they were drawn into inputs as they are packed."""

    def __init__(
        self, schema: Schema, world: World, teacher: Teacher, tables: dict[str, _RankedTable]
    ) -> None:
        self.schema, self.world, self.teacher = schema, world, teacher
        device = world.device
        self.ids = {name: torch.from_numpy(t.ids).to(device) for name, t in tables.items()}
        self.values = torch.from_numpy(dense_values()).to(device)

    def pack(self, rows: Tensor) -> tuple[Inputs, Tensor, Tensor]:
        """The inputs of these numbers, their labels, and the bins of their probabilities."""
        raw = self.world.draw(rows)
        labels, bins = self.teacher.teach(raw)
        inputs = Inputs(
            labels=labels.cpu().numpy(),
            ids=self._block(raw).cpu().numpy(),
            dense=self._dense(raw).cpu().numpy(),
            lists=self._lists(raw),
            times=None if raw.times is None else raw.times.cpu().numpy(),
        )
        return inputs, labels, bins

    def _block(self, raw: RawInputs) -> Tensor:
        shape = (len(raw.rows), len(self.schema.singles))
        block = torch.empty(shape, dtype=torch.int32, device=raw.rows.device)
        for place, column in enumerate(self.schema.singles):
            drawn = raw.columns[column.name]
            assert isinstance(drawn, Tensor), "a single column has one value an input"
            block[:, place] = self.ids[column.table].index_select(0, drawn)
        return block

    def _dense(self, raw: RawInputs) -> Tensor:
        block = torch.empty((len(raw.rows), len(raw.dense)), device=raw.rows.device)
        for place, counts in enumerate(raw.dense):
            block[:, place] = self.values.index_select(0, counts + 1)
        return block

    def _lists(self, raw: RawInputs) -> dict[str, Ragged]:
        lists = {}
        for column in self.schema.lists:
            drawn = raw.columns[column.name]
            assert isinstance(drawn, RawList), "a list column has lists"
            chosen = self.ids[column.table].index_select(0, drawn.values[drawn.mask])
            offsets = np.concatenate([[0], np.cumsum(drawn.lengths.cpu().numpy())])
            lists[column.name] = Ragged(chosen.cpu().numpy(), offsets)
        return lists
