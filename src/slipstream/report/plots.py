"""Which pictures are made of runs. One is left out where no run has what it shows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from slipstream.number_format import compact, decimal, size
from slipstream.report.axes import INPUTS, Axis
from slipstream.report.results import Result
from slipstream.report.runs import RunRecord
from slipstream.report.skipping import skipping_plots
from slipstream.report.svg import COLOURS, Plot, Point, Segment, Series
from slipstream.report.variants import Setting

_SECONDS = Axis(
    "seconds of training, after the first report", exact=lambda v: f"{v:.1f} s", least=0.0
)
_PHASES = ("data", "plan", "transfer", "step", "evaluate")


def places(settings: Sequence[Setting]) -> dict[str, int]:
    """The number of each variant's label, which is its colour in every picture."""
    labels = dict.fromkeys(one.label for setting in settings for one in setting.variants)
    return {label: number for number, label in enumerate(labels)}


def plots_of(setting: Setting, results: Sequence[Result], numbers: dict[str, int]) -> list[Plot]:
    """The pictures of a setting.

    Args:
        setting: Its runs, by variant.
        results: What they reached.
        numbers: The number of each label.
    """
    made = [
        *_learning(setting, numbers),
        _phases(results),
        *skipping_plots(setting, results, numbers),
        *_memory(results),
    ]
    return [one for one in made if one.series or any(parts for _, parts in one.bars)]


def _learning(setting: Setting, numbers: dict[str, int]) -> list[Plot]:
    made: list[Plot] = []
    auc = Axis("AUC", shown=decimal, exact=lambda value: f"AUC {value:.4f}")
    loss = Axis("logloss", shown=decimal, exact=lambda value: f"logloss {value:.4f}")
    for measure, axis, word in (("auc", auc, "AUC"), ("logloss", loss, "Loss")):
        for name, along, place in (
            ("inputs", INPUTS, _position),
            ("time", _SECONDS, _seconds),
        ):
            series = _series(setting, numbers, "evaluation", measure, place)
            title = f"{word} against {name}"
            text = "Of the evaluation part. A line for each run."
            made.append(Plot(f"{measure}-{name}", title, along, axis, series, text=text))
    return made


def _series(
    setting: Setting,
    numbers: dict[str, int],
    kind: str,
    measure: str,
    place: Callable[[RunRecord, dict[str, Any]], float | None],
) -> list[Series]:
    made = []
    for variant in setting.variants:
        for run in (*variant.runs, *variant.unfinished):
            points: list[Point] = []
            for line in run.of_kind(kind):
                value, at = line.get(measure), place(run, line)
                if value is not None and at is not None:
                    points.append((float(at), float(value)))
            if points:
                number = numbers[variant.label]
                detail = f"seed {run.seed}" + ("" if run.summary else ", unfinished")
                made.append(
                    Series(
                        f"v{number}", variant.label, number % COLOURS, points, detail, dashed=True
                    )
                )
    return made


def _position(_run: RunRecord, line: dict[str, Any]) -> float | None:
    return line.get("position")


def _seconds(run: RunRecord, line: dict[str, Any]) -> float | None:
    seconds = line.get("train_seconds")
    return None if seconds is None else max(0.0, seconds - run.start_seconds)


def _phases(results: Sequence[Result]) -> Plot:
    bars = []
    for one in results:
        runs = [run.summary for run in one.variant.runs if run.summary]
        spent = {
            phase: sum(run["phase_seconds"].get(phase, 0.0) for run in runs) / len(runs)
            for phase in dict.fromkeys([*_PHASES, *runs[0]["phase_seconds"]])
        }
        total = sum(spent.values())
        segments = [
            Segment(
                f"p-{phase}",
                phase,
                number % COLOURS,
                seconds,
                f"{one.label}: {phase}\n{compact(seconds)} s of {compact(total)} s "
                f"({seconds / total:.0%}), mean of {len(runs)}",
            )
            for number, (phase, seconds) in enumerate(spent.items(), 1)
            if seconds > 0
        ]
        bars.append((one.label, segments))
    axis = Axis("seconds of a run", least=0.0)
    text = (
        "Mean of the runs that have ended. What compiling takes at the start is in plan and step."
    )
    return Plot("phases", "Seconds by phase", axis, bars=bars, text=text)


def _memory(results: Sequence[Result]) -> list[Plot]:
    def bars(parts: Sequence[tuple[str, Callable[[dict[str, Any]], float]]]) -> Any:
        made = []
        for one in results:
            runs = [run.summary for run in one.variant.runs if run.summary]
            segments = []
            for number, (name, value) in enumerate(parts, 1):
                mean = sum(value(run) for run in runs) / len(runs)
                if mean > 0:
                    tip = f"{one.label}: {name}\n{size(mean)}"
                    segments.append(Segment(f"m-{name}", name, number, mean, tip))
            made.append((one.label, segments))
        return made

    def memory(where: str) -> Callable[[dict[str, Any]], float]:
        return lambda run: (run.get("peak_memory_bytes") or {}).get(where) or 0

    def carried(what: str) -> Callable[[dict[str, Any]], float]:
        return lambda run: ((run.get("carried") or {}).get("per_input") or {}).get(what, 0)

    held = bars((("host", memory("host")), ("device", memory("device"))))
    moved = bars((("into the fast tier", carried("bytes_in")), ("back", carried("bytes_out"))))
    axis = Axis("bytes at the most", shown=size, bytes=True, least=0.0)
    each = Axis("bytes an input", shown=size, bytes=True, least=0.0)
    text = "Between the slow and the fast tier, optimizer state counted, for each input trained."
    peak = "The peak of a run, mapped files left out."
    return [
        Plot("memory", "Peak memory", axis, bars=held, text=peak),
        Plot("moved", "Bytes moved", each, bars=moved, text=text),
    ]
