"""Which runs are the same but for their seed, and which may be compared with which.

The keys of a configuration fall into three kinds. Some say what is asked (data, model, optimizers):
runs that differ in them have different **settings**, and no difference is taken between them. Some
say how it is answered (strategy, ordering, skipping, placement, device): runs that differ in them
are **variants** of one another, which is what a comparison is about. The rest (seed, logs,
checkpoints) changes neither.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from slipstream.pipeline.strategies import STRATEGIES
from slipstream.report.runs import RunRecord

_ANSWERS = (
    *("strategy", "ordering", "skip", "skipping", "placement"),
    *("device", "precision", "compile", "threads"),
)
_NEITHER = ("seed", "log", "checkpoint", "evaluate")
Values = tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class Variant:
    """Runs that differ in their seed only.

    Args:
        label: What to call it: the strategy, and what else tells it from the others.
        runs: Those that have come to their end.
        unfinished: Those that have not.
        keys: How it answers, by key, where variants differ.
    """

    label: str
    runs: tuple[RunRecord, ...]
    unfinished: tuple[RunRecord, ...]
    keys: dict[str, Any]

    @property
    def strategy(self) -> str:
        """The strategy."""
        return (*self.runs, *self.unfinished)[0].strategy

    @property
    def skips(self) -> bool:
        """Whether a rule decided which inputs to train, though it may have skipped none."""
        ended = [run.summary for run in self.runs if run.summary]
        return any(one.get("skip_share", 0) > 0 or "skipping" in one for one in ended)


@dataclass(frozen=True)
class Setting:
    """Variants that may be compared: the same data, model and way to learn.

    Args:
        label: What tells this setting from the others; empty where there is one only.
        variants: In the order of the runs, the baseline first.
    """

    label: str
    variants: tuple[Variant, ...]

    @property
    def runs(self) -> list[RunRecord]:
        """All runs, of all variants."""
        return [run for one in self.variants for run in (*one.runs, *one.unfinished)]

    def baseline(self, variant: Variant) -> Variant | None:
        """What a variant is compared with: plain training without skipping, else the first.

        Where there are several plain ones it is the one that answers most alike.
        """
        ended = [one for one in self.variants if one.runs]
        plain = [one for one in ended if one.strategy == "plain" and not one.skips]
        best, alike = None, -1
        for one in plain or ended[:1]:
            same = sum(one.keys[key] == variant.keys[key] for key in one.keys if key != "strategy")
            if same > alike:
                best, alike = one, same
        return best


def settings_of(runs: Sequence[RunRecord]) -> list[Setting]:
    """The runs by setting and variant."""
    differing = _differing(runs)
    asked = [key for key in differing if _kind(key) == "asked"]
    by_setting = _grouped(runs, asked)
    labels = _labels(list(by_setting), "data", "model.name")
    made = []
    for label, group in zip(labels, by_setting.values(), strict=True):
        answers = [key for key in _differing(group) if _kind(key) == "answer"]
        made.append(Setting(label, tuple(_variants(group, answers))))
    return made


def _variants(runs: Sequence[RunRecord], keys: Sequence[str]) -> list[Variant]:
    grouped = _grouped(runs, ["strategy", *(key for key in keys if key != "strategy")])
    variants = [
        Variant(
            label,
            tuple(run for run in group if run.summary is not None),
            tuple(run for run in group if run.summary is None),
            dict(values),
        )
        for (values, group), label in zip(
            grouped.items(), _labels(list(grouped), "strategy", always=True), strict=True
        )
    ]
    place = {name: number for number, name in enumerate(STRATEGIES)}
    return sorted(variants, key=lambda one: (one.skips, place.get(one.strategy, len(place))))


def _labels(groups: Sequence[Values], *first: str, always: bool = False) -> list[str]:
    """Names that tell groups of values apart, with as few keys as it takes, some of them first.

    Args:
        groups: The values of each.
        first: Keys to begin with, whose values speak for themselves.
        always: Whether the first key is told also where it tells nothing apart.
    """
    held = [dict(group) for group in groups]
    keys = list(dict.fromkeys([*(key for key in first if key in held[0]), *held[0]]))
    made = []
    for mine in held:
        told, rivals = [], held
        for number, key in enumerate(keys):
            alike = [one for one in rivals if one[key] == mine[key]]
            # What is left open is as the strategy says, and needs no word.
            tells = len(alike) < len(rivals) and mine[key] is not None
            if tells or (always and not number):
                told.append(_told(key, mine[key], first))
            rivals = alike
        made.append(", ".join(told))
    return made


def _told(key: str, value: Any, bare: Sequence[str]) -> str:
    word = "skip" if key == "skip.rule" else key.rpartition(".")[2]
    return str(value) if key in bare else f"{word} {value}"


def _grouped(runs: Iterable[RunRecord], keys: Sequence[str]) -> dict[Values, list[RunRecord]]:
    groups: dict[str, tuple[Values, list[RunRecord]]] = {}
    for run in runs:
        values = tuple((key, run.keys.get(key)) for key in keys)
        groups.setdefault(repr(values), (values, []))[1].append(run)
    return {_Same(values): group for values, group in groups.values()}


class _Same(tuple[tuple[str, Any], ...]):
    """Values as a key of a mapping, also where one of them is a list."""

    __slots__ = ()

    def __hash__(self) -> int:
        return hash(repr(self))


def _differing(runs: Sequence[RunRecord]) -> list[str]:
    keys = dict.fromkeys(key for run in runs for key in run.keys)
    return [key for key in keys if len({repr(run.keys.get(key)) for run in runs}) > 1]


def _kind(key: str) -> str:
    section = key.partition(".")[0]
    if section in _ANSWERS:
        return "answer"
    return "neither" if section in _NEITHER else "asked"
