"""`slipstream profile`: what fast memory would do for a data set, before anything is trained."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import typer

from slipstream.cli.config_options import ConfigOptions, config_options
from slipstream.cli.terminal import print_line, progress, table
from slipstream.number_format import compact, size


@config_options("model", "fast_memory")
def profile(
    *,
    data: Path = typer.Argument(..., metavar="DATA", help="The folder of the packed data set."),
    options: ConfigOptions,
    sample_batches: int = typer.Option(
        300, min=1, help="How many batches to plan; copies are counted in the middle third."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print JSON, for programs."),
) -> None:
    """Estimate, without training, how much GPU memory is useful for a data set.

    Shows how many accesses the most popular embedding rows take, and how many bytes these rows
    need. For several sizes of the fast tier it shows how often each placement finds a row there,
    and how many bytes it copies. Default of --fast-memory here: auto.

    Example: slipstream profile clicks --model deepfm --fast-memory 256MiB
    """
    from slipstream.analyze.profile.profile import profile as profile_of
    from slipstream.data.dataset import Dataset
    from slipstream.training.build import model_of
    from slipstream.training.example_order import order_of

    if options.file is None and options.flags["placement.fast_memory"] is None:
        options.flags["placement.fast_memory"] = "auto"
    config, dataset = options.config(), Dataset.open(data)
    with progress("examples") as on_progress:
        result = profile_of(
            dataset,
            model_of(config, dataset).layout,
            order_of(config, dataset),
            fast_memory=config.placement.fast_memory,
            batch_size=config.batch_size,
            sample_batches=sample_batches,
            window=config.placement.window,
            on_progress=on_progress,
        )
    if as_json:
        json.dump({"data": str(data), "model": config.model.name, **result}, sys.stdout, indent=2)
        print()
        return
    _show(result, f"{data}: {config.model.name}, {result['rows']:,} rows")


def _show(result: dict[str, Any], title: str) -> None:
    sizes = " and ".join(f"{bytes_} bytes" for bytes_ in result["row_bytes"])
    print_line(
        f"{title} of {sizes}, {size(result['bytes'])} with optimizer state; "
        f"{result['accesses']:,} accesses by {result['inputs']:,} examples"
    )
    shares = list(result["tables"][0]["top"])
    names = ["table", "rows", "size", *(f"top {share}" for share in shares), "accesses"]
    cells = [
        [
            *(rows["table"], f"{rows['rows']:,}", size(rows["bytes"])),
            *(f"{rows['top'][share]:.1%}" for share in shares),
            compact(rows["accesses"]),
        ]
        for rows in result["tables"]
    ]
    table("Share of accesses that the most accessed rows take", names, cells)
    budget = result["fast_memory"]
    by_bytes = {
        rows["bytes"]: [
            *(f"{rows['access_share']:.1%}", size(rows["bytes"])),
            *(f"{rows['bytes'] / result['bytes']:.2%}", f"{rows['rows']:,}"),
        ]
        for rows in (*result["coverage"], *result["budgets"], budget)
    }
    names = ["accesses", "memory", "of all", "rows"]
    cells = [row for _, row in sorted(by_bytes.items())]
    table("What the most accessed rows take and need", names, cells)
    _show_what_if(result)
    print_line(
        f"Fast memory of {budget['budget']} ({size(budget['bytes'])}): holds {budget['rows']:,} "
        f"rows that take {budget['access_share']:.1%} of accesses"
    )
    print_line(
        f"  The least that works is {budget['least_bytes']:,} bytes, where one batch fits; with "
        f"{budget['every_batch_fits_bytes']:,} bytes every batch does."
    )
    calibration = result["calibration"]
    if "why_not" in calibration:
        print_line(f"  {calibration['why_not']}")
        return
    likely, upper = (calibration["rows"][bound] for bound in ("likely", "upper"))
    print_line(
        f"  By a sample of {calibration['inputs']:,} examples: rows with "
        f"{calibration['threshold']} or more accesses in it are hot, about {likely:,.0f} and at "
        f"most {upper:,.0f} rows."
    )


def _show_what_if(result: dict[str, Any]) -> None:
    what_if = result["what_if"]
    budgets = {rows["bytes"]: rows["budget"] for rows in result["budgets"]}
    rows = []
    for outcome in what_if["outcomes"]:
        name = f"{budgets[outcome['budget_bytes']]} {outcome['placement']}"
        copies = [f"{outcome['hit_rate']:.1%}", f"{outcome['bytes_per_input']:,.0f}"]
        oversized = f"{outcome['oversized_batches']:,}"
        if outcome["oversized_batches"] == what_if["batches_counted"]:
            copies, oversized = ["-", "-"], "all"
        rows.append([name, size(outcome["budget_bytes"]), *copies, oversized])
    table(
        f"What if: {what_if['batches']:,} batches of {what_if['batch_size']:,} planned, the middle "
        f"{what_if['batches_counted']:,} counted; a row counts once a batch",
        ["budget and placement.kind", "memory", "hits", "bytes/example", "batches too large"],
        rows,
    )
