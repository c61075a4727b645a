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
_NEITHER = ("seed", "log", "checkpoint", "evaluate")
Keys = dict[str, Any]


@dataclass(frozen=True)
class Setting:
    """Runs that differ only in their seed.

    Args:
        label: The strategy, and the keys that tell this setting from the others.
        runs: The runs that have ended.
        unfinished: The runs that have not.
        keys: The keys that say how it is learned and differ within the group.
    """

    label: str
    runs: tuple[RunRecord, ...]
    unfinished: tuple[RunRecord, ...]
    keys: Keys

    @property
    def strategy(self) -> str:
        """The strategy."""
        return (*self.runs, *self.unfinished)[0].strategy

    @property
    def skips(self) -> bool:
        """Whether a skip rule chose the examples to train, even if it skipped none."""
        summaries = [run.summary for run in self.runs if run.summary]
        return any(one.get("skip_share", 0) > 0 or "skipping" in one for one in summaries)

    @property
    def seeds(self) -> int:
        """The number of seeds that have ended."""
        return len({run.seed for run in self.runs})


@dataclass(frozen=True)
class Group:
    """Settings that may be compared: the same data, model and optimizers.

    Args:
        label: What tells this group from the others; empty if there is only one.
        settings: The settings, the baseline first.
    """

    label: str
    settings: tuple[Setting, ...]

    @property
    def runs(self) -> list[RunRecord]:
        """The runs of all settings."""
        return [run for each in self.settings for run in (*each.runs, *each.unfinished)]

    def baseline(self, setting: Setting) -> Setting | None:
        """The setting to compare with: `plain` without skipping, otherwise the first.

        If there are several, the one that shares most keys.
        """
        ended = [each for each in self.settings if each.runs]
        plain = [each for each in ended if each.strategy == "plain" and not each.skips]
        return max(plain or ended[:1], key=lambda each: _alike(each, setting), default=None)

    def random_controls(self, setting: Setting) -> list[Setting]:
        """Settings that skip at random: those of the same strategy, or of plain without such."""
        random = [
            each
            for each in self.settings
            if each.runs
            and each.runs[0].keys.get("skip.rule") == "random"
            and not each.runs[0].keys.get("skip.options.hot_only")
        ]
        for strategy in (setting.strategy, "plain"):
            controls = [each for each in random if each.strategy == strategy]
            if controls:
                return controls
        return []


def groups_of(runs: Sequence[RunRecord]) -> list[Group]:
    """The runs by group and setting."""
    parts = _split(runs, [key for key in _differing(runs) if _kind(key) == "what"])
    labels = _labels([keys for keys, _ in parts], ("data", "model.name"))
    return [Group(label, _settings(group)) for label, (_, group) in zip(labels, parts, strict=True)]


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
    parts = _split(runs, ["strategy", *how])
    labels = _labels([keys for keys, _ in parts], ("strategy",), always=True)
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


def _labels(groups: Sequence[Keys], first: Sequence[str], always: bool = False) -> list[str]:
    """Labels that tell groups of keys apart, each with as few keys as possible.

    Args:
        groups: The keys of each group.
        first: Keys that come first and whose value needs no name.
        always: Whether the first key stands in every label.
    """
    keys = sorted(groups[0], key=lambda key: _place_in_label(key, first))
    labels = []
    for mine in groups:
        words: list[str] = []
        rivals = list(groups)
        for number, key in enumerate(keys):
            alike = [other for other in rivals if other[key] == mine[key]]
            # A key that is null follows from the strategy.
            if (len(alike) < len(rivals) and mine[key] is not None) or (always and not number):
                words.append(str(mine[key]) if key in first else key_label(key, mine[key]))
            rivals = alike
        labels.append(", ".join(words))
    return labels


def _place_in_label(key: str, first: Sequence[str]) -> int:
    """Names of rules and kinds tell most; a lag is often chosen by the run itself."""
    if key in first:
        return first.index(key) - len(first)
    name = key.rpartition(".")[2]
    return {"kind": 0, "rule": 0, "lag": 2}.get(name, 1)


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
