"""Which pictures are made of runs. One is left out where no run has what it shows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from slipstream.report.axes import Axis
from slipstream.report.numbers import compact, size
from slipstream.report.results import Result
from slipstream.report.runs import RunRecord
from slipstream.report.svg import COLOURS, Plot, Point, Segment, Series
from slipstream.report.variants import Setting

_INPUTS = Axis("inputs", exact=lambda value: f"{value:,.0f} inputs", least=0.0)
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
        *_skipping(setting, results, numbers),
        *_memory(results),
    ]
    return [one for one in made if one is not None]


def _learning(setting: Setting, numbers: dict[str, int]) -> list[Plot | None]:
    made: list[Plot | None] = []
    auc = Axis("AUC", shown=_decimal, exact=lambda value: f"AUC {value:.4f}")
    loss = Axis("logloss", shown=_decimal, exact=lambda value: f"logloss {value:.4f}")
    for measure, axis, word in (("auc", auc, "AUC"), ("logloss", loss, "Loss")):
        for name, along, place in (
            ("inputs", _INPUTS, _position),
            ("time", _SECONDS, _seconds),
        ):
            series = _series(setting, numbers, "evaluation", measure, place)
            title = f"{word} against {name}"
            text = "Of the evaluation part. A line for each run."
            made.append(_plot(f"{measure}-{name}", title, along, axis, series, text))
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


def _phases(results: Sequence[Result]) -> Plot | None:
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
    if not bars:
        return None
    axis = Axis("seconds of a run", least=0.0)
    text = (
        "Mean of the runs that have ended. What compiling takes at the start is in plan and step."
    )
    return Plot("phases", "Seconds by phase", axis, bars=bars, text=text)


def _memory(results: Sequence[Result]) -> list[Plot | None]:
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
        return made if any(segments for _, segments in made) else []

    def memory(where: str) -> Callable[[dict[str, Any]], float]:
        return lambda run: (run.get("peak_memory_bytes") or {}).get(where) or 0

    def carried(what: str) -> Callable[[dict[str, Any]], float]:
        return lambda run: ((run.get("carried") or {}).get("per_input") or {}).get(what, 0)

    held = bars((("host", memory("host")), ("device", memory("device"))))
    moved = bars((("into the fast tier", carried("bytes_in")), ("back", carried("bytes_out"))))
    axis = Axis("bytes at the most", shown=size, bytes=True, least=0.0)
    each = Axis("bytes an input", shown=size, bytes=True, least=0.0)
    text = "Between the slow and the fast tier, optimizer state counted, for each input trained."
    return [
        Plot(
            "memory",
            "Peak memory",
            axis,
            bars=held,
            text="The peak of a run, mapped files left out.",
        )
        if held
        else None,
        Plot("moved", "Bytes moved", each, bars=moved, text=text) if moved else None,
    ]


def _skipping(
    setting: Setting, results: Sequence[Result], numbers: dict[str, int]
) -> list[Plot | None]:
    if not any(one.skips for one in setting.variants):
        return []
    share = Axis("share skipped", shown=_percent, exact=lambda v: f"{v:.1%} skipped", least=0.0)
    auc = Axis("change of AUC", shown=_decimal, exact=lambda value: f"AUC {value:+.4f}")
    over = [
        Series(
            f"v{numbers[variant.label]}",
            variant.label,
            numbers[variant.label] % COLOURS,
            points,
            f"seed {run.seed}",
            dashed=True,
        )
        for variant in setting.variants
        for run in variant.runs
        if len(points := _shares(run)) > 1
    ]
    against = [
        Series(
            f"v{numbers[one.label]}",
            one.label,
            numbers[one.label] % COLOURS,
            [(one.values["skip_share"][seed], auc - base[seed])],
            f"seed {seed}",
            line=False,
        )
        for one, base in _with_baseline(results)
        for seed, auc in one.values.get("auc", {}).items()
        if seed in base and seed in one.values.get("skip_share", {})
    ]
    return [
        _plot(
            "skip-share", "Share skipped over time", _INPUTS, share, over, "A line for each run."
        ),
        _plot(
            "skip-auc",
            "Change of AUC against share skipped",
            share,
            auc,
            against,
            "A point for each run: its AUC less that of the baseline with the same seed. Random "
            "skipping is the control: a rule is worth its trouble where it lies above that.",
        ),
    ]


def _with_baseline(results: Sequence[Result]) -> list[tuple[Result, dict[int, float]]]:
    """Each result with the AUC of its baseline, by seed; a baseline is its own."""
    by_label = {one.label: one.values.get("auc", {}) for one in results}
    return [(one, by_label[one.baseline.label if one.baseline else one.label]) for one in results]


def _shares(run: RunRecord) -> list[Point]:
    """The share skipped by each decision, at the two ends of the inputs that it judged."""
    decisions = ((run.summary or {}).get("skipping") or {}).get("decisions") or []
    points: list[Point] = []
    for one in decisions:
        if one.get("share") is not None:
            begun = points[-1][0] if points else 0.0
            points += [(begun, one["share"]), (begun + one["inputs"], one["share"])]
    return points


def _plot(
    name: str, title: str, x: Axis, y: Axis, series: Sequence[Series], text: str
) -> Plot | None:
    return Plot(name, title, x, y, series, text=text) if series else None


def _decimal(value: float) -> str:
    return f"{value:.4g}"


def _percent(value: float) -> str:
    return f"{value * 100:g} %"
