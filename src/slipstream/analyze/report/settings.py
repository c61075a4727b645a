"""Groups runs by setting, and settings by what may be compared.

The keys of a configuration are of three kinds. Data, model and optimizers say what is learned: runs
that differ in them are in different **groups**, and no difference is taken between groups.
Strategy, ordering, skipping, placement and device say how it is learned: runs that differ in them
have different **settings**, and the settings of a group are compared. The other keys (seed, logs,
checkpoints) change neither.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from slipstream.analyze.report.runs import RunRecord
from slipstream.pipeline.strategies import STRATEGIES

_HOW = ("strategy", "order", "skip", "placement", "device", "precision", "compile", "threads")
_NAMED = ("strategy", "skip.rule")  # in every label, also where all runs have the same
_NEITHER = ("seed", "log", "checkpoint", "evaluate")
Keys = dict[str, Any]


@dataclass(frozen=True)
class Setting:
    """Runs that differ only in their seed."""

    label: str  # the strategy, and the keys in which it differs
    runs: tuple[RunRecord, ...]
    unfinished: tuple[RunRecord, ...]
    keys: Keys  # strategy, skip rule, and others that differ and change how it learns

    @property
    def strategy(self) -> str:
        """The strategy."""
        return (*self.runs, *self.unfinished)[0].strategy

    @property
    def skips(self) -> bool:
        """Whether a skip rule chose the examples to train, even if it skipped none."""
        summaries = [run.summary or {} for run in self.runs]
        return any(each.get("skip_share", 0) > 0 or "skipping" in each for each in summaries)

    @property
    def seeds(self) -> int:
        """The number of seeds that have ended."""
        return len({run.seed for run in self.runs})


@dataclass(frozen=True)
class RunGroup:
    """Settings that may be compared: the same data, model and optimizers."""

    label: str  # how it differs from other groups; empty if there is only one
    settings: tuple[Setting, ...]  # the baseline first

    @property
    def runs(self) -> list[RunRecord]:
        """The runs of all settings."""
        return [run for each in self.settings for run in (*each.runs, *each.unfinished)]

    @property
    def ended(self) -> list[Setting]:
        """The settings with a run that has ended."""
        return [setting for setting in self.settings if setting.runs]

    def baseline(self, setting: Setting) -> Setting | None:
        """The setting to compare with: `plain` without skipping, otherwise the first.

        If there are several, the one that shares most keys.
        """
        plain = [each for each in self.ended if each.strategy == "plain" and not each.skips]
        return max(plain or self.ended[:1], key=lambda each: _alike(each, setting), default=None)

    def random_controls(self, setting: Setting) -> list[Setting]:
        """Settings that skip at random: those of the same strategy, or of plain without such."""
        random = [
            each
            for each in self.ended
            if each.runs[0].keys.get("skip.rule") == "random"
            and not each.runs[0].keys.get("skip.options.hot_only")
        ]
        own = [each for each in random if each.strategy == setting.strategy]
        return own or [each for each in random if each.strategy == "plain"]


def groups_of(runs: Sequence[RunRecord]) -> list[RunGroup]:
    """The runs by group and setting."""
    parts = _split(runs, [key for key in _differing(runs) if _kind(key) == "what"])
    labels = _labels([keys for keys, _ in parts], ("data", "model.name"))
    return [
        RunGroup(label, _settings(part)) for label, (_, part) in zip(labels, parts, strict=True)
    ]


def key_label(key: str, value: Any) -> str:
    """A key with its value in a label.

    Example:
        >>> key_label("skip.rule", "value"), key_label("placement.fast_memory", "5%")
        ('skip value', 'fast_memory 5%')
    """
    section, _, name = key.rpartition(".")
    return f"{section if name in ('rule', 'kind') else name} {value}"


def _settings(runs: Sequence[RunRecord]) -> tuple[Setting, ...]:
    how = [key for key in _differing(runs) if _kind(key) == "how" and key != "strategy"]
    parts = _split(runs, [*_NAMED, *how])
    labels = _labels([keys for keys, _ in parts], ("strategy",), always=_NAMED)
    settings = [
        Setting(
            label,
            tuple(run for run in group if run.summary is not None),
            tuple(run for run in group if run.summary is None),
            keys,
        )
        for label, (keys, group) in zip(labels, parts, strict=True)
    ]
    place = {name: number for number, name in enumerate(STRATEGIES)}
    settings.sort(key=lambda each: (each.skips, place.get(each.strategy, len(place))))
    return tuple(settings)


def _labels(groups: Sequence[Keys], first: Sequence[str], always: Sequence[str] = ()) -> list[str]:
    """Labels that distinguish groups of keys, each with as few keys as possible.

    The keys `first` begin a label and their value needs no name. The keys `always` stand in every
    label, unless they are null or none.
    """

    def place(key: str) -> int:
        # Names of rules and kinds explain most; a lag is often chosen by the run itself.
        if key in first:
            return first.index(key) - len(first)
        return {"kind": 0, "rule": 0, "lag": 2}.get(key.rpartition(".")[2], 1)

    labels = []
    for group in groups:
        words: list[str] = []
        rivals = list(groups)
        for key in sorted(group, key=place):
            alike = [other for other in rivals if other[key] == group[key]]
            # A key that is null follows from the strategy.
            differs = len(alike) < len(rivals) and group[key] is not None
            if differs or (key in always and group[key] not in (None, "none")):
                words.append(str(group[key]) if key in first else key_label(key, group[key]))
            rivals = alike
        labels.append(", ".join(words))
    return labels


def _split(runs: Sequence[RunRecord], keys: Sequence[str]) -> list[tuple[Keys, list[RunRecord]]]:
    """The runs by their values of some keys."""
    parts: dict[str, tuple[Keys, list[RunRecord]]] = {}
    for run in runs:
        values = {key: run.keys.get(key) for key in keys}
        parts.setdefault(repr(values), (values, []))[1].append(run)
    return list(parts.values())


def _alike(first: Setting, second: Setting) -> int:
    return sum(value == second.keys[key] for key, value in first.keys.items() if key != "strategy")


def _differing(runs: Sequence[RunRecord]) -> list[str]:
    keys = dict.fromkeys(key for run in runs for key in run.keys)
    return [key for key in keys if len({repr(run.keys.get(key)) for run in runs}) > 1]


def _kind(key: str) -> str:
    section = key.partition(".")[0]
    return "how" if section in _HOW else "neither" if section in _NEITHER else "what"
