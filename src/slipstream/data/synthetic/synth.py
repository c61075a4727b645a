"""Makes a packed data set of built-in data: a pass that counts, ranks, and a pass that writes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np

from slipstream.arrays import Array
from slipstream.data.atomic_write import check_replaceable
from slipstream.data.encoder import Dictionary
from slipstream.data.inputs import Examples, Ragged
from slipstream.data.layout import PARTS
from slipstream.data.ranking import Ranking, rank
from slipstream.data.schema import Column, Schema, Table
from slipstream.data.synthetic.draws import distinct_words32, key
from slipstream.data.synthetic.generator import (
    MISSING_VALUE,
    Drift,
    ExampleGenerator,
    RawExamples,
)
from slipstream.data.synthetic.shapes import TableShape, shape_named
from slipstream.data.synthetic.teacher import Labels, OracleScores, Teacher, dense_values
from slipstream.data.writer import DatasetWriter
from slipstream.errors import ConfigError

VALIDATION, EVALUATION = 0.05, 0.10
Progress = Callable[[int], None]


@dataclass(frozen=True)
class Recipe:
    """The settings of built-in data: the same recipe makes the same bytes.

    Args:
        shape: small, effects, criteo-kaggle or taobao.
        rows: Examples in all three parts together.
        seed: The seed of everything random.
        positives: The share of positive labels; the shape's own by default.
        exponent: The exponent of every table's power law; the shape's own by default.
        drift: How popularity and the teacher change: none, gradual or sudden@SHARE.
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

    def generator(self) -> ExampleGenerator:
        """The generator that draws the examples."""
        shape = shape_named(self.shape)
        if self.exponent is not None:
            shape = shape.with_exponent(self.exponent)
        return ExampleGenerator(shape, self.rows, self.seed, Drift.parse(self.drift))

    @property
    def share(self) -> float:
        """The share of positive labels, the shape's own where none is chosen."""
        return self.positives or shape_named(self.shape).positives

    def parts(self) -> dict[str, tuple[int, int]]:
        """The first example of each part, and the end of the part; evaluation comes last."""
        first = self.rows - round(self.rows * EVALUATION)
        middle = first - round(self.rows * VALIDATION)
        return dict(zip(PARTS, ((0, middle), (middle, first), (first, self.rows)), strict=True))


def synthesize(
    recipe: Recipe, out: str | Path, *, force: bool = False, progress: Progress = lambda _: None
) -> Path:
    """Make a packed data set.

    Args:
        recipe: What to make.
        out: The folder to make it in.
        force: Replace a data set that is already there.
        progress: Called with a number of examples done; each is done twice.

    Example:
        >>> synthesize(Recipe(rows=10_000), "more-clicks").name
        'more-clicks'
    """
    check_replaceable(Path(out).resolve(), force)  # now, not after minutes of work
    generator = recipe.generator()
    parts = recipe.parts()
    counts = _count(generator, parts["train"][1], progress)
    progress(recipe.rows - parts["train"][1])
    tables = {
        table.name: _RankedTable(table, counts.pop(table.name), recipe)
        for table in generator.shape.tables
    }
    schema = Schema(
        tables=tuple(ranked.table for ranked in tables.values()),
        columns=tuple(Column(c.name, c.table, c.kind) for c in generator.shape.columns),
        dense=tuple(f"I{number + 1}" for number in range(generator.shape.dense)),
        label="click",
        times=generator.shape.seconds > 0,
    )
    teacher = Teacher(generator, recipe.share)
    ids_of_values = {name: ranked.ids for name, ranked in tables.items()}

    def pack_chunk(numbers: Array) -> tuple[Examples, Labels]:
        raw = generator.draw(numbers)
        labels = teacher.label(raw)
        return pack(raw, labels.labels, schema, ids_of_values), labels

    source = {"kind": "synthetic", **asdict(recipe), "positives": recipe.share, "files": []}
    oracle = {}
    with DatasetWriter(out, schema, source=source, force=force) as writer:
        for part, (start, stop) in parts.items():
            scores = OracleScores()
            for inputs, labels in generator.map_chunks(pack_chunk, start, stop):
                scores.add(labels.bins, labels.labels)
                writer.append(part, inputs)
                progress(len(inputs))
            if (of_part := scores.scores()) is not None:
                oracle[part] = of_part
        return writer.finish(
            {name: ranked.ranking.counts for name, ranked in tables.items()},
            {name: ranked.dictionary for name, ranked in tables.items()},
            oracle=oracle,
        )


def pack(
    raw: RawExamples, labels: Array, schema: Schema, ids_of_values: dict[str, Array]
) -> Examples:
    """Examples as they are packed, from examples as they were drawn."""
    columns = raw.columns
    ids = [ids_of_values[c.table][columns[c.name].values] for c in schema.singles]
    lists = {}
    for column in schema.lists:
        values, lengths = columns[column.name].values, columns[column.name].lengths
        assert lengths is not None, "a list column has lists"
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        lists[column.name] = Ragged(ids_of_values[column.table][values], offsets)
    dense = np.empty((len(labels), len(raw.dense)), dtype=np.float32)
    for place, counts in enumerate(raw.dense):
        dense[:, place] = _DENSE[counts + 1]
    return Examples(labels, np.stack(ids, axis=1), dense, lists, times=raw.times)


_DENSE = dense_values()


class _RankedTable:
    """A table once its values are counted."""

    def __init__(self, shape: TableShape, counts: Array, recipe: Recipe) -> None:
        raw = partial(raw_values, shape, seed=recipe.seed)
        self.ranking: Ranking = rank(counts, min_count=recipe.min_count, ties=raw)
        self.ids = self.ranking.ids.astype(np.int32)
        make = Dictionary.of_hex if shape.values == "hex" else Dictionary.of_int
        self.dictionary = make(raw(self.ranking.values))
        missing = int(self.ids[MISSING_VALUE]) if shape.missing else None
        unseen = self.ranking.unseen
        missing = None if missing == unseen else missing
        self.table = Table(shape.name, len(self.ranking.counts), unseen, missing, shape.values)


def raw_values(table: TableShape, values: Array, seed: int) -> Array:
    """The values of a table as a raw log shows them."""
    if table.values == "hex":
        return distinct_words32(values, key(seed, "raw", table.name))
    return values


def _count(generator: ExampleGenerator, stop: int, progress: Progress) -> dict[str, Array]:
    """How often each value of each table is drawn in the training part."""
    counts = {t.name: np.zeros(t.rows, dtype=np.int64) for t in generator.shape.tables}
    for raw in generator.map_chunks(partial(generator.draw, ids_only=True), 0, stop):
        for column in generator.shape.columns:
            np.add.at(counts[column.table], raw.columns[column.name].values, 1)
        progress(len(raw.example_numbers))
    return counts
