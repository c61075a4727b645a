"""`slipstream profile`: what fast memory would do for a data set, before anything is trained."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import typer

from slipstream.commands.terminal import human, out, says_what_is_wrong, steps, table


@says_what_is_wrong
def profile(
    data: Path = typer.Argument(..., metavar="DATA", help="The folder of the data set."),
    config: Path | None = typer.Option(
        None, metavar="FILE", help="A YAML file, as for train: its model and optimizers count."
    ),
    model: str | None = typer.Option(
        None, help="dlrm, tbsm, dcn, deepfm or wide_deep.", show_default="dlrm"
    ),
    settings: list[str] = typer.Option(
        [], "--set", metavar="KEY=VALUE", help="Any key of the config."
    ),
    fast_memory: str | None = typer.Option(
        None,
        metavar="SIZE",
        help="Fast memory to choose a hot set for: 256MiB, 5% of all rows, or auto, the least "
        "whose rows take 95 % of accesses.",
        show_default="auto, or what FILE says",
    ),
    step_rate: float | None = typer.Option(
        None,
        min=1e-9,
        help="Inputs/s of a training with all rows in fast memory; turns bytes into a rate to "
        "expect.",
    ),
    sample_batches: int = typer.Option(
        300, min=1, help="Batches that are planned to compare strategies; the middle third counts."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print everything as JSON instead."),
    plots: Path | None = typer.Option(
        None, metavar="DIR", help="Also draw the access and coverage curves, as SVG, into a folder."
    ),
) -> None:
    """See how skewed a data set is, and what fast memory would do for it. Trains nothing.

    Tells which share of accesses the top rows take, how many bytes cover how much, how fast the
    popular rows change, and, for several budgets, how often each strategy would find its rows in
    fast memory and how many bytes it would move. Optimizer state is counted everywhere.

    Example: slipstream profile clicks --model deepfm --fast-memory 256MiB --plots curves
    """
    from slipstream.config import Config
    from slipstream.data.dataset import Dataset
    from slipstream.skew.profile import Question
    from slipstream.skew.profile import profile as find_out
    from slipstream.training.build import model_of, order_of

    budget = fast_memory or (None if config else "auto")
    given = {"model.name": model, "placement.fast_memory": budget}
    flags = [f"{key}={json.dumps(value)}" for key, value in given.items() if value is not None]
    chosen = (Config.read(config) if config else Config()).with_settings([*flags, *settings])
    dataset = Dataset.open(data)
    layout = model_of(chosen, dataset).layout
    with steps("inputs") as tell:
        question = Question(
            chosen.placement.fast_memory,
            batch_size=chosen.batch_size,
            sample_batches=sample_batches,
            window=chosen.placement.window,
            step_rate=step_rate,
            tell=tell,
        )
        found = find_out(dataset, layout, order_of(chosen, dataset), question)
    if plots is not None:
        from slipstream.commands.profile_plots import draw

        draw(dataset, layout, found, plots)
    if as_json:
        json.dump({"data": str(data), "model": chosen.model.name, **found}, sys.stdout, indent=2)
        print()
        return
    _show(found, f"{data}: {chosen.model.name}, {found['rows']:,} rows")


def _show(found: dict[str, Any], title: str) -> None:
    sizes = " and ".join(f"{size} bytes" for size in found["row_bytes"])
    _say(
        f"{title} of {sizes}, {_size(found['bytes'])} with optimizer state; "
        f"{found['accesses']:,} accesses by {found['inputs']:,} inputs"
    )
    tops = list(found["tables"][0]["top"])
    table(
        "Share of accesses that the top rows take",
        ["table", "rows", "size", *(f"top {top}" for top in tops), "accesses"],
        [
            [
                one["table"],
                f"{one['rows']:,}",
                _size(one["bytes"]),
                *(f"{one['top'][top]:.1%}" for top in tops),
                human(one["accesses"]),
            ]
            for one in found["tables"]
        ],
    )
    table(
        "Fast memory that covers a share of accesses, with the most accessed rows first",
        ["accesses", "memory", "of all", "rows", "inputs all hot"],
        [
            [
                f"{one['access_share']:.0%}",
                _size(one["bytes"]),
                f"{one['bytes'] / found['bytes']:.2%}",
                f"{one['rows']:,}",
                f"{one['all_hot_inputs']:.1%}",
            ]
            for one in found["coverage"]
        ],
    )
    _show_drift(found["drift"])
    _show_what_if(found)
    _show_hot_set(found["hot_set"], found["calibration"])


def _show_drift(drift: dict[str, Any]) -> None:
    stretches = drift["stretches"]
    shown = sorted({0, 1, len(stretches) // 4, len(stretches) // 2, len(stretches) - 1})
    table(
        f"Drift of a hot set of {_size(drift['budget'])}, by equal stretches of the training part",
        [
            "stretch",
            "also hot in the one before",
            "accesses: own",
            "the one before's",
            "the first's",
        ],
        [
            [
                f"{number + 1} of {len(stretches)}",
                _share(stretches[number]["overlap"]),
                _share(stretches[number]["own"]),
                _share(stretches[number]["before"]),
                _share(stretches[number]["first"]),
            ]
            for number in shown
            if number < len(stretches)
        ],
    )
    if drift["control"] is not None:
        _say(f"  Without any drift, chance alone leaves {drift['control']:.1%} also hot.")


def _show_what_if(found: dict[str, Any]) -> None:
    counted = found["what_if"]
    names = {one["bytes"]: one["budget"] for one in found["budgets"]}
    rated = counted["step_rate"] is not None
    rows, small = [], []
    for one in counted["outcomes"]:
        name = names[one["budget_bytes"]]
        if "why_not" in one:
            small += [] if name in small else [name]
            continue
        alone = one["copies_alone_per_second"]
        cells = [f"{name} {one['way']}", _size(one["budget_bytes"]), f"{one['hit_rate']:.1%}"]
        cells += [f"{one['bytes_per_input']:,.0f}", "-" if alone is None else human(alone)]
        rows.append(cells + ([human(one["samples_per_second"])] if rated else []))
    also = ["to expect, inputs/s"] if rated else []
    table(
        f"What if: {counted['batches']:,} batches of {counted['batch_size']:,} planned, the middle "
        f"{counted['batches_counted']:,} counted; a row counts once a batch",
        ["budget and way", "memory", "hits", "bytes/input", "copies alone, inputs/s", *also],
        rows,
    )
    if small:
        _say(f"  Too small for the largest batch: {', '.join(small)}.")
    speeds = " and ".join(f"{human(rate)}B/s" for rate in counted["copy_bytes_per_second"])
    _say(f"  Measured here: rows are copied at {speeds} by one thread.")


def _show_hot_set(hot: dict[str, Any], calibration: dict[str, Any]) -> None:
    whole = ", ".join(hot["tables_whole"])
    _say(
        f"Hot set for {hot['fast_memory']} ({_size(hot['budget_bytes'])}): {hot['rows']:,} rows, "
        f"{hot['access_share']:.1%} of accesses, {hot['all_hot_inputs']:.1%} of inputs all hot"
        + (f"; whole because they are small: {whole}" if whole else "")
    )
    _say(
        f"  The least that works is {hot['least_bytes']:,} bytes, where one batch fits; with "
        f"{hot['every_batch_fits_bytes']:,} bytes every batch does."
    )
    if "why_not" in calibration:
        _say(f"  {calibration['why_not']}")
        return
    rows = calibration["rows"]
    _say(
        f"  From {calibration['inputs']:,} inputs alone: rows with {calibration['threshold']} or "
        f"more accesses among them, about {rows['rows']:,.0f} and at most {rows['most']:,.0f} rows."
    )


def _say(text: str) -> None:
    out.print(text, soft_wrap=True)


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"


def _size(bytes_: float) -> str:
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if bytes_ >= unit:
            return (
                f"{bytes_ / unit:.3g} {name}"
                if bytes_ < 1000 * unit
                else f"{bytes_ / unit:,.0f} {name}"
            )
    return f"{bytes_:.0f} B"
