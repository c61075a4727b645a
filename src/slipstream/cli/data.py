"""`slipstream data show | verify`: look at a packed data set."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from slipstream.cli.command import Command
from slipstream.cli.terminal import print_line, progress_bar, reports_errors, table, warn
from slipstream.number_format import size

if TYPE_CHECKING:  # torch takes seconds to import: commands import it when they run
    from slipstream.arrays import Array
    from slipstream.data.dataset import Dataset, Part

app = typer.Typer(
    help="Show or check a packed data set.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
_FOLDER = typer.Argument(..., metavar="DIR", help="The folder of the data set.")


@app.command("show", cls=Command)
@reports_errors
def show(
    folder: Path = _FOLDER,
    examples: int = typer.Option(3, min=0, help="How many examples to show."),
) -> None:
    """Show the parts and tables of a data set, and its first examples.

    Example: slipstream data show clicks
    """
    from slipstream.data.dataset import Dataset

    dataset = Dataset.open(folder)
    print_line(_headline(dataset))
    _show_parts(dataset)
    _show_tables(dataset)
    for number in range(min(examples, len(dataset.train))):
        print_line(_decoded(dataset, dataset.train, number))


@app.command("verify", cls=Command)
@reports_errors
def verify_command(folder: Path = _FOLDER) -> None:
    """Check every byte of a data set for damage.

    If a file is damaged, it is named, and the exit status is 1.

    Example: slipstream data verify clicks
    """
    from slipstream.data.manifest import read_manifest
    from slipstream.data.verify import verify

    files = read_manifest(folder).files
    total = sum(info.bytes for info in files.values())
    with progress_bar("checking", total, "B") as advance:
        problems = verify(folder, advance)
    for problem in problems:
        warn(f"slipstream: {problem}")
    if problems:
        raise typer.Exit(1)
    print_line(f"{folder}: {len(files)} files, {size(total)}, no errors.")


def _headline(dataset: Dataset) -> str:
    source = dataset.manifest.source
    origin = source["kind"]
    if origin == "synthetic":
        origin = f"synthetic data of shape {source['shape']}, seed {source['seed']}"
        origin += f", drift {source['drift']}"
    elif origin == "log":
        origin = f"{source['format']} log of {source['rows_read']:,} lines"
        if source["rows_set_aside"]:
            origin += f", {source['rows_set_aside']:,} skipped"
    total = sum(info.bytes for info in dataset.manifest.files.values())
    schema, bad = dataset.schema, sum(dataset.manifest.bad_rows.values())
    return (
        f"{dataset.folder}: {origin}; {size(total)}; {len(schema.columns)} columns in "
        f"{len(schema.tables)} tables, {len(schema.dense)} dense values"
        + (", weights" if schema.weights else "")
        + (", times" if schema.times else "")
        + (f"; {bad:,} bad lines skipped" if bad else "")
    )


def _show_parts(dataset: Dataset) -> None:
    rows = []
    for name, info in dataset.manifest.parts.items():
        oracle = (dataset.manifest.oracle or {}).get(name)
        positive = "-" if info.label_rate is None else f"{info.label_rate:.2%}"
        scores = [f"{oracle[score]:.4f}" if oracle else "-" for score in ("auc", "logloss")]
        rows.append([name, f"{info.rows:,}", positive, str(len(info.shards)), *scores])
    names = ["part", "examples", "positive", "shards", "oracle AUC", "oracle logloss"]
    table("Parts", names, rows)


def _show_tables(dataset: Dataset) -> None:
    from slipstream.analyze.profile import pooled, top_share

    def skew(name: str, counts: Array) -> list[str]:
        shares = [
            f"{top_share(counts, share):.1%}" if len(counts) * share >= 1 else "-"
            for share in (0.001, 0.01, 0.1)
        ]
        return [name, f"{len(counts):,}", *shares]

    all_counts, rows = [], []
    for shared in dataset.schema.tables:
        counts = dataset.counts(shared.name)
        all_counts.append(counts)
        unseen = int(counts[shared.unseen]) / max(1, int(counts.sum()))
        used = [
            column.name if column.kind == "single" else f"{column.name} ({column.kind})"
            for column in dataset.schema.columns
            if column.table == shared.name
        ]
        rows.append([*skew(shared.name, counts), f"{unseen:.1%}", ", ".join(used)])
    if len(all_counts) > 1:
        rows.append([*skew("all", pooled(all_counts)), "", ""])
    names = ["table", "rows", "top 0.1 %", "top 1 %", "top 10 %", "unseen", "columns"]
    title = "Tables, and the share of accesses in training that their most popular rows take"
    table(title, names, rows)


def _decoded(dataset: Dataset, part: Part, number: int) -> str:
    """One example: its ids as raw values of the log, its dense values as they are stored."""
    from slipstream.data.encoder import decode

    schema = dataset.schema
    (run,) = part.runs(number, number + 1)
    words = [f"{schema.label}={run.labels[0]:g}"]
    words += [f"{n}={v:.4g}" for n, v in zip(schema.dense, run.dense[0], strict=True)]
    singles = iter(run.ids[0].tolist())
    for column in schema.columns:
        rows_of, single = schema.table(column.table), column.kind == "single"
        dictionary, buckets = dataset.dictionary(rows_of.name), dataset.buckets(rows_of.name)
        ids = [next(singles)] if single else run.lists[column.name].values.tolist()
        values = ", ".join(decode(row, rows_of, dictionary, buckets) for row in ids)
        words.append(f"{column.name}={values}" if single else f"{column.name}=[{values}]")
    if run.weights is not None:
        words.append(f"weight={run.weights[0]:g}")
    if run.times is not None:
        words.append(f"time={run.times[0]}")
    line = f"example {number}: " + " ".join(words)
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in line)
