"""Presets: named lists of settings to compare."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from slipstream.config import Config
from slipstream.data.dataset import Dataset
from slipstream.errors import ConfigError, did_you_mean
from slipstream.pipeline.strategies import strategy_of
from slipstream.skip import RULES
from slipstream.skip.registry import option_names

Keys = dict[str, Any]
# The published method counts batches, bytes and sampled examples, and was measured on this much
# data. On smaller data the same counts would never skip anything, so they are scaled down.
_BATCHES, _OF_BATCHES = 1000, 44_766
_SAMPLED_EXAMPLES = 45_841
_HOT_BYTES, _HOT_SHARE = 256 << 20, 0.12
_CONTROL_TARGETS = (0.1, 0.3, 0.5)


def _skipping() -> Iterator[Keys]:
    """Each block of skipping on and off, every rule, and thresholds, beside their controls."""
    for strategy in ("plain", "slipstream"):
        yield {"strategy": strategy, "skip.rule": "none"}
        for target in _CONTROL_TARGETS:
            yield {"strategy": strategy, "skip.rule": "random", "skip.target": target}
    yield {"strategy": "slipstream", "skip.rule": "random", "skip.options.hot_only": True}
    yield {"strategy": "slipstream"}
    yield {"strategy": "slipstream", "order.kind": "as-is"}
    yield {"strategy": "slipstream", "placement.kind": "slow"}
    yield {"strategy": "slipstream", "skip.options.repeat": True}
    for rule in RULES:
        if rule != "random":
            yield {"strategy": "plain", "skip.rule": rule}
    for rule in ("published", "value"):
        for target in (0.1, 0.5):
            yield {"strategy": "plain", "skip.rule": rule, "skip.target": target}
    for key, value in (("options.h_f", 2), ("options.h_t", 0.001), ("warmup", 0.1)):
        yield {"strategy": "plain", "skip.rule": "published", f"skip.{key}": value}
    for key, value in (("interval", 0.02), ("interval", 0.2), ("warmup", 0.02)):
        yield {"strategy": "plain", "skip.rule": "value", f"skip.{key}": value}


PRESETS: dict[str, Callable[[], Iterator[Keys]]] = {"skipping": _skipping}


def preset_settings(name: str) -> list[Keys]:
    """The settings of a preset, each as the keys that it changes."""
    if name not in PRESETS:
        raise ConfigError(f"There is no preset {name!r}.{did_you_mean(name, PRESETS)}")
    return list(PRESETS[name]())


def with_own_options(configs: Sequence[Config]) -> list[Config]:
    """The configurations, each without options of skip rules that only the others have."""
    names = [option_names(c.skipping, c.ordering) for c in map(strategy_of, configs)]
    known = {name for own in names for name in own}
    return [
        config.replace(
            skip=config.skip.replace(
                options={
                    name: value
                    for name, value in config.skip.options.items()
                    if name in own or name not in known
                }
            )
        )
        for config, own in zip(configs, names, strict=True)
    ]


def scaled_to(config: Config, dataset: Dataset) -> Config:
    """The configuration with the counts of the published method scaled to a data set.

    Only options that its rule has, and that it does not set itself.
    """
    examples = max(1, len(dataset.train))
    batches = round(examples / config.batch_size * _BATCHES / _OF_BATCHES)
    scaled: dict[str, Any] = {
        "warmup_batches": min(_BATCHES, max(1, batches)),
        "sample_share": min(1.0, round(_SAMPLED_EXAMPLES / examples, 4)),
    }
    elements = sum(table.rows for table in dataset.schema.tables)
    elements *= int(config.model.options.get("dim", 16))
    if elements * 4 * _HOT_SHARE < _HOT_BYTES:
        scaled["hot_memory"] = f"{_HOT_SHARE:.0%}"
    chosen = strategy_of(config)
    names = option_names(chosen.skipping, chosen.ordering)
    options = {name: value for name, value in scaled.items() if name in names}
    return config.replace(skip=config.skip.replace(options=options | config.skip.options))
