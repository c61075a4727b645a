"""The rules by name, and the options of each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from slipstream.config.section import build, keys_of
from slipstream.errors import ConfigError, did_you_mean
from slipstream.skip.hot import HotOptions
from slipstream.skip.rule import NoOptions, SkipRule

RULES: dict[str, type[SkipRule]] = {}
NAMES = ["none"]
"""The values of `skip.rule`."""
_HOT = tuple(keys_of(HotOptions))


def register(name: str, rule: type[SkipRule]) -> None:
    """Make a rule available as `skip.rule`.

    Args:
        name: The name in the configuration.
        rule: Its class.
    """
    if name in NAMES:
        raise ConfigError(f"There is already a skip rule {name!r}. Choose another name.")
    RULES[name] = rule
    NAMES.append(name)


class RuleChoice(NamedTuple):
    """The class of a run's rule, or None; its options; and which rows are hot, if that is used."""

    kind: type[SkipRule] | None
    options: Any
    hot: HotOptions

    @property
    def needs_hot_rows(self) -> bool:
        """Whether the rule uses hot rows: its options have them, and `hot_only` is not off."""
        return isinstance(self.options, HotOptions) and getattr(self.options, "hot_only", True)

    @property
    def skips_hot_first(self) -> bool:
        """Whether it leaves the examples that need the most rows from the slow tier."""
        return self.kind is not None and (
            self.kind.skips_hot_first or getattr(self.options, "hot_only", False)
        )


def option_names(name: str, order: str = "as-is") -> list[str]:
    """The options that `skip.options` may have with a rule and an order of examples."""
    if name not in NAMES:
        raise ConfigError(f"There is no skip rule {name!r}.{did_you_mean(name, NAMES)}")
    names = list(keys_of(RULES[name].Options)) if name in RULES else []
    return list(dict.fromkeys([*names, *(_HOT if order == "cold-first" else ())]))


def rule_choice(name: str, options: Mapping[str, Any], order: str = "as-is") -> RuleChoice:
    """The rule of a name with its options; an error names what is wrong with them.

    Args:
        name: The rule, or `none`.
        options: The section `skip.options` of the configuration.
        order: The order of examples: `cold-first` uses the options of hot rows too.
    """
    names = option_names(name, order)
    for option in options:
        if option not in names:
            rule = f"The rule {name}" if name in RULES else "A run without a skip rule"
            hint = did_you_mean(option, names) or " Leave it out."
            raise ConfigError(f"{rule} has no option skip.options.{option}.{hint}")
    kind = RULES.get(name)
    of_rule = NoOptions if kind is None else kind.Options
    own = {key: value for key, value in options.items() if key in keys_of(of_rule)}
    hot = {key: value for key, value in options.items() if key in _HOT}
    return RuleChoice(
        kind, build(of_rule, own, "skip.options"), build(HotOptions, hot, "skip.options")
    )
