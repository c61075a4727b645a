"""The lines of an ablation: which blocks are on, which thresholds, which rules and models."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from slipstream.config import Config
from slipstream.config.skip import READ_BY
from slipstream.data.dataset import Dataset
from slipstream.data.schema import Schema
from slipstream.skipping.rule import Rule
from slipstream.skipping.rules import RULES

Keys = dict[str, Any]
RANDOM, RANDOM_HOT = "random", "random-hot"
CONTROLS = (RANDOM, RANDOM_HOT)
PUBLISHED = "slipstream"
TARGETS = (0.1, 0.5)
# What was published in numbers of batches and bytes, beside what there was then: 44,766 batches
# and 2.16 GB of rows. On smaller data it is taken in proportion. Of the sample it is the number of
# inputs that counts: a thousandth of a few thousand is none.
_BATCHES, _OF_BATCHES = 1000, 44_766
_BYTES, _SHARE = 256 << 20, 0.12
_SAMPLED, _OF_INPUTS = 0.001, 45_840_617
_OF_PUBLISHED = ("skip.warmup_batches", "skip.sample_share")
_NORMALIZED = {"model.normalize_dense": True, "model.normalize_embedded": True}


@dataclass(frozen=True)
class Line:
    """One line of the table.

    Args:
        group: blocks, rules, thresholds or models.
        name: What it shows, within its group.
        keys: What it changes.
        base: What its baseline changes too: training without skipping in the same setting.
        controls: The rules that are to skip as much as it does.
        tier: How soon it is trained; lines of a tier with one more seed come with the next tier.
    """

    group: str
    name: str
    keys: Keys
    base: Keys = field(default_factory=dict)
    controls: tuple[str, ...] = ()
    tier: int = 0

    @property
    def label(self) -> str:
        """Tells it from all other lines."""
        return f"{self.group}: {self.name}"

    @property
    def name_of_base(self) -> str:
        """Tells its baseline from those of other lines."""
        model = str(self.base["model.name"])
        return model if len(self.base) == 1 else f"{model}, normalized"


def lines_of(config: Config, dataset: Dataset, models: Sequence[str]) -> list[Line]:
    """All lines, for a configuration and a data set.

    Args:
        config: What the lines change.
        dataset: What they are trained on.
        models: The models to try; the first stands in all other lines.
    """
    first = {"model.name": models[0]}
    fair = in_proportion(config, dataset)
    made = [*_blocks(first, fair), *_rules(first, fair), *_thresholds(first, fair, dataset.schema)]
    for model in models[1:]:
        made += _models({"model.name": model}, fair)
    return made


def in_proportion(config: Config, dataset: Dataset) -> Keys:
    """The keys of the published method that are numbers of batches and bytes, for these data."""
    batches = len(dataset.train) / config.batch_size
    rows = sum(table.rows for table in dataset.schema.tables)
    keys: Keys = {
        "skip.warmup_batches": min(_BATCHES, max(1, round(batches * _BATCHES / _OF_BATCHES)))
    }
    sampled = min(1.0, round(_SAMPLED * _OF_INPUTS / max(1, len(dataset.train)), 4))
    if sampled > _SAMPLED:
        keys["skip.sample_share"] = sampled
    dim = int(config.model.options.get("dim", 16))
    if rows * dim * 4 * _SHARE < _BYTES:
        keys["skip.hot_memory"] = f"{_SHARE:.0%}"
    return keys


def _blocks(first: Keys, fair: Keys) -> Iterator[Line]:
    """The published method whole, then with one block off, or one more on."""
    whole = {**first, **fair, "strategy": PUBLISHED}
    yield Line("blocks", "as published", whole, first, CONTROLS, tier=0)
    changes: dict[str, Keys] = {
        "no skipping": {"skip.rule": "none"},
        "inputs as they come": {"ordering.kind": "as-is"},
        "no fast tier": {"placement.kind": "slow"},
        "decided anew": {"skip.repeat": True},
    }
    for name, keys in changes.items():
        if name == "no skipping":
            of_order = {k: v for k, v in whole.items() if k not in _OF_PUBLISHED}
            yield Line("blocks", name, of_order | keys, first, (), tier=1)
        else:
            yield Line("blocks", name, whole | keys, first, CONTROLS, tier=1)
    normal = first | _NORMALIZED
    yield Line("blocks", "normalized", whole | _NORMALIZED, normal, CONTROLS, tier=1)


def _rules(first: Keys, fair: Keys) -> Iterator[Line]:
    """Every rule by itself."""
    for name in RULES:
        if name in CONTROLS:
            continue
        keys, controls = _plain(name, first, fair), _controls(name)
        tier = 0 if name == "value" else 1
        yield Line("rules", name, keys, first, controls, tier)


def _thresholds(first: Keys, fair: Keys, schema: Schema) -> Iterator[Line]:
    """The thresholds of the published method and of the rule without one, swept."""
    columns = len(schema.columns)
    swept: dict[str, dict[str, Sequence[Any]]] = {
        "published": {
            "target": TARGETS,
            "h_f": (2, 8),
            "h_t": (0.0001, 0.001, 0.01),
            "h_c": sorted({max(1, columns // 2), max(1, columns - 1)}),
            "warmup": (0.1, 0.3),
        },
        "value": {"target": TARGETS, "interval": (0.02, 0.2), "warmup": (0.02, 0.3)},
        "movement": {"least_touches": (1, 100)},
    }
    for rule, keys in swept.items():
        for key, values in keys.items():
            for value in values:
                chosen = _plain(rule, first, fair) | {f"skip.{key}": value}
                name = f"{rule}, {key} {value:g}"
                yield Line("thresholds", name, chosen, first, _controls(rule), tier=2)


def _models(model: Keys, fair: Keys) -> Iterator[Line]:
    """The published method and the best rule, with another model."""
    name = model["model.name"]
    whole = {**model, **fair, "strategy": PUBLISHED}
    yield Line("models", f"{name}, as published", whole, model, CONTROLS, tier=1)
    for rule in ("value", "thin"):
        keys = _plain(rule, model, fair)
        yield Line("models", f"{name}, {rule}", keys, model, _controls(rule), tier=2)


def _plain(rule: str, setting: Keys, fair: Keys) -> Keys:
    """A rule by itself, without any other block."""
    read = {k: v for k, v in fair.items() if rule in READ_BY[k.removeprefix("skip.")]}
    return {**setting, **read, "strategy": "plain", "skip.rule": rule}


def _controls(rule: str) -> tuple[str, ...]:
    """What a rule is to be compared with; one that skips no inputs has no control."""
    if RULES[rule].still is not Rule.still:
        return ()
    return CONTROLS if RULES[rule].NEEDS_HOT else (RANDOM,)
