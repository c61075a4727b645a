"""`slipstream data show | verify | read`: look at a packed data set."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from slipstream.commands.terminal import err, human, out, progress, says_what_is_wrong, table
from slipstream.data.dictionary import Dictionary, decode
from slipstream.data.inputs import Array
from slipstream.data.layout import PARTS
from slipstream.errors import ConfigError, did_you_mean
from slipstream.ordering import InputOrder
from slipstream.skew import pooled, top_share

if TYPE_CHECKING:  # torch takes seconds to import: commands do so when they run
    from slipstream.data.dataset import Dataset, Part

app = typer.Typer(
    help="Look at a packed data set, check it, read it.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
_FOLDER = typer.Argument(..., metavar="DIR", help="The folder of the data set.")


@app.command("show")
@says_what_is_wrong
def show(
    folder: Path = _FOLDER,
    inputs: int = typer.Option(3, min=0, help="How many of the first inputs to decode."),
) -> None:
    """Show what is in a data set: parts, columns, skew, and the first inputs as raw values.

    Example: slipstream data show clicks
    """
    from slipstream.data.dataset import Dataset

    dataset = Dataset.open(folder)
    out.print(_headline(dataset), soft_wrap=True)
    _show_parts(dataset)
    _show_tables(dataset)
    for number in range(min(inputs, len(dataset.train))):
        out.print(_decoded(dataset, dataset.train, number), soft_wrap=True)


@app.command("verify")
@says_what_is_wrong
def verify_command(folder: Path = _FOLDER) -> None:
    """Read every byte of a data set and check it: checksums, ids in range, counts.

    Exit status 1 if anything is wrong, naming the files.

    Example: slipstream data verify clicks
    """
    from slipstream.data.manifest import read_manifest
    from slipstream.data.verify import verify

    files = read_manifest(folder).files
    total = sum(info.bytes for info in files.values())
    with progress("checking", total, "B") as done:
        problems = verify(folder, done)
    for problem in problems:
        err.print(f"slipstream: {problem}", soft_wrap=True)
    if problems:
        raise typer.Exit(1)
    out.print(
        f"{folder}: {len(files)} files, {human(total)}B, all as they should be.", soft_wrap=True
    )


@app.command("read")
@says_what_is_wrong
def read(
    folder: Path = _FOLDER,
    part: str = typer.Option("train", help=f"One of {', '.join(PARTS)}."),
    batch_size: int = typer.Option(2048, min=1, help="Inputs a batch."),
    shuffle: int | None = typer.Option(None, help="Shuffle by blocks with this seed."),
    epochs: int = typer.Option(1, min=1, help="How often to read every input."),
    limit: int | None = typer.Option(None, min=0, help="Read the first inputs only."),
) -> None:
    """Read inputs through the loader, as training does, and say how fast that went.

    Example: slipstream data read clicks --batch-size 16384 --shuffle 1
    """
    from slipstream.data.dataset import Dataset
    from slipstream.data.loader import Loader

    dataset = Dataset.open(folder)
    if part not in PARTS:
        raise ConfigError(f"There is no part {part!r}.{did_you_mean(part, PARTS)}")
    source = dataset.parts[part]
    order = InputOrder(len(source), seed=shuffle, epochs=epochs, limit=limit)
    inputs, batches, positives = 0, 0, 0.0
    begun = time.perf_counter()
    with (
        progress("reading", len(order), "inputs") as done,
        Loader(source, batch_size, order=order) as loader,
    ):
        for batch in loader:
            inputs += batch.n_valid
            batches += 1
            positives += float(batch.labels.sum())
            done(batch.n_valid)
    seconds = time.perf_counter() - begun
    rate = f", {positives / inputs:.2%} positive" if inputs else ""
    out.print(
        f"{inputs:,} inputs in {batches:,} batches{rate}, in {seconds:.2f} s "
        f"({human(inputs / seconds)} inputs/s)",
        soft_wrap=True,
    )


def _headline(dataset: Dataset) -> str:
    source = dataset.manifest.source
    origin = source["kind"]
    if origin == "synthetic":
        origin = f"built-in data of shape {source['shape']}, seed {source['seed']}"
        origin += f", drift {source['drift']}"
    elif origin == "log":
        origin = f"{source['format']} log of {source['rows_read']:,} rows"
        if source["rows_set_aside"]:
            origin += f", {source['rows_set_aside']:,} set aside"
    size = sum(info.bytes for info in dataset.manifest.files.values())
    schema = dataset.schema
    also = [name for name, there in (("weights", schema.weights), ("times", schema.times)) if there]
    bad = sum(dataset.manifest.bad_rows.values())
    return (
        f"{dataset.folder}: {origin}; {human(size)}B; {len(schema.columns)} columns in "
        f"{len(schema.tables)} tables, {len(schema.dense)} dense values"
        + "".join(f", {name}" for name in also)
        + (f"; {bad:,} bad rows set aside" if bad else "")
    )


def _show_parts(dataset: Dataset) -> None:
    rows = []
    for name, info in dataset.manifest.parts.items():
        oracle = (dataset.manifest.oracle or {}).get(name)
        positive = "-" if info.label_rate is None else f"{info.label_rate:.2%}"
        scores = [f"{oracle[score]:.4f}" if oracle else "-" for score in ("auc", "logloss")]
        rows.append([name, f"{info.rows:,}", positive, str(len(info.shards)), *scores])
    names = ["part", "inputs", "positive", "shards", "oracle AUC", "oracle logloss"]
    table("Parts", names, rows)


def _show_tables(dataset: Dataset) -> None:
    everything, rows = [], []
    for one in dataset.schema.tables:
        counts = dataset.counts(one.name)
        everything.append(counts)
        unseen = int(counts[one.unseen]) / max(1, int(counts.sum()))
        used = [
            column.name if column.kind == "single" else f"{column.name} ({column.kind})"
            for column in dataset.schema.columns
            if column.table == one.name
        ]
        rows.append([one.name, *_skew(counts), f"{unseen:.1%}", ", ".join(used)])
    if len(everything) > 1:
        rows.append(["all", *_skew(pooled(everything)), "", ""])
    names = ["table", "rows", "top 0.1 %", "top 1 %", "top 10 %", "unseen", "columns"]
    table("Tables, and the share of training accesses that their top rows take", names, rows)


def _skew(counts: Array) -> list[str]:
    shares = [
        f"{top_share(counts, share):.1%}" if len(counts) * share >= 1 else "-"
        for share in (0.001, 0.01, 0.1)
    ]
    return [f"{len(counts):,}", *shares]


def _decoded(dataset: Dataset, part: Part, number: int) -> str:
    """One input as it stood in the log."""
    schema = dataset.schema
    (run,) = part.runs(number, number + 1)
    words = [f"{schema.label}={run.labels[0]:g}"]
    words += [f"{n}={v:.4g}" for n, v in zip(schema.dense, run.dense[0], strict=True)]
    known: dict[str, Dictionary | None] = {}
    places = {column.name: place for place, column in enumerate(schema.singles)}
    for column in schema.columns:
        shared = schema.table(column.table)
        if shared.name not in known:
            known[shared.name] = dataset.dictionary(shared.name)
        if column.kind == "single":
            ids = [int(run.ids[0, places[column.name]])]
        else:
            ids = run.lists[column.name].values.tolist()
        buckets = dataset.buckets(shared.name)
        values = [decode(row, shared, known[shared.name], buckets) for row in ids]
        listed = values[0] if column.kind == "single" else f"[{', '.join(values)}]"
        words.append(f"{column.name}={listed}")
    if run.weights is not None:
        words.append(f"weight={run.weights[0]:g}")
    if run.times is not None:
        words.append(f"time={run.times[0]}")
    line = f"input {number}: " + " ".join(words)
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in line)
