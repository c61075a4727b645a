"""Data for the benchmark of a GPU: packed data sets whose ids follow one power law.

Ids are ranks by the law that they are drawn from, and a table says of each row how often it is
expected in the training part. So the rows that a fast tier keeps are chosen by the law and not by
the very inputs that are trained, of which it would know the rare ones too. Labels come from the
teacher of built-in data.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from slipstream.data.inputs import Examples
from slipstream.data.schema import Column, Schema, Table
from slipstream.data.synthetic.generator import Drift, ExampleGenerator
from slipstream.data.synthetic.shapes import SHAPES, ColumnShape, DataShape, TableShape
from slipstream.data.synthetic.synth import pack
from slipstream.data.synthetic.teacher import Labels, OracleScores, Teacher
from slipstream.data.writer import DatasetWriter

# Rows of the 26 tables of Criteo Terabyte where ids are taken modulo 40 million: 187,767,399.
_TERABYTE = [39884406, 39043, 17289, 7420, 20263, 3, 7120, 1543, 63, 38532951, 2953546, 403346, 10]
_TERABYTE += [2208, 11938, 155, 4, 976, 14, 39979771, 25641295, 39664984, 585935, 12972, 108, 36]
_VALIDATION, _EVALUATION = 1 << 14, 1 << 18


class Made(NamedTuple):
    """A data set to be made.

    Args:
        shape: kaggle or terabyte.
        exponent: Of every table's power law.
        inputs: Of the training part.
        smaller: Tables have so many times fewer rows, and parts fewer inputs; 1 is the real size.
    """

    shape: str
    exponent: float
    inputs: int
    smaller: int = 1

    @property
    def name(self) -> str:
        """Of its folder."""
        return f"{self.shape}-{self.exponent:g}-{self.inputs}-{self.smaller}"


def shape_of(made: Made) -> DataShape:
    """The tables and columns of a data set."""
    shape = SHAPES["criteo-kaggle"]
    if made.shape == "terabyte":
        sizes = {f"C{number}": rows for number, rows in enumerate(_TERABYTE, 1)}
        tables = tuple(TableShape(name, rows) for name, rows in sizes.items())
        mixing = {name for name, rows in sizes.items() if rows < 3000}
        columns = tuple(ColumnShape(name, name, mixes=name in mixing) for name in sizes)
        shape = DataShape("criteo-terabyte", tables, columns, positives=0.03, dense=13)
    fewer = (replace(one, rows=max(3, one.rows // made.smaller)) for one in shape.tables)
    return replace(shape, tables=tuple(fewer)).with_exponent(made.exponent)


def make(made: Made, folder: Path) -> Path:
    """Pack a data set into a folder; gives where it lies.

    Args:
        made: Which.
        folder: Where data sets are; one that is there already is taken as it is.
    """
    out = folder / made.name
    if (out / "manifest.json").is_file():
        return out
    shape = shape_of(made)
    ends = np.cumsum([made.inputs, _VALIDATION // made.smaller, _EVALUATION // made.smaller])
    generator = ExampleGenerator(shape, int(ends[-1]), 0, Drift.parse("none"))
    teacher = Teacher(generator, shape.positives)
    ids = {table.name: np.arange(table.rows, dtype=np.int32) for table in shape.tables}
    schema = Schema(
        tables=tuple(Table(one.name, one.rows, one.rows - 1) for one in shape.tables),
        columns=tuple(Column(one.name, one.table, one.kind) for one in shape.columns),
        dense=tuple(f"I{number + 1}" for number in range(shape.dense)),
        label="click",
    )

    def pack_chunk(numbers: np.ndarray) -> tuple[Examples, Labels]:
        raw = generator.draw(numbers)
        labels = teacher.label(raw)
        return pack(raw, labels.labels, schema, ids), labels

    oracle = {}
    source = {"kind": "benchmark", **made._asdict(), "files": []}
    with DatasetWriter(out, schema, source=source, force=True) as writer:
        bounds = zip(("train", "validation", "evaluation"), [0, *ends[:-1]], ends, strict=True)
        for part, start, stop in bounds:
            scores = OracleScores()
            for inputs, labels in generator.map_chunks(pack_chunk, int(start), int(stop)):
                scores.add(labels.bins, labels.labels)
                writer.append(part, inputs)
            oracle[part] = scores.scores()
        counts = {one.name: _expected(one, made.inputs) for one in shape.tables}
        return writer.finish(counts, oracle={k: v for k, v in oracle.items() if v})


def _expected(table: TableShape, inputs: int) -> np.ndarray:
    """How often each row of a table is expected among so many inputs.

    Rows that are expected less than once share out what is expected of all of them: some of them
    come, and who makes room for rows must know how many.
    """
    ranks = np.arange(1, table.rows + 1, dtype=np.float64)
    law = ranks**-table.exponent
    expected = law * (inputs / law.sum())
    counts = expected.round().astype(np.int64)
    rare = int((counts > 0).sum())
    counts[rare : rare + round(float(expected[rare:].sum()))] = 1
    return counts
