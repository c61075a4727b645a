"""The configuration of a run as a whole."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec

from slipstream.config import files
from slipstream.config.kinds import Amount, Count, Device, Position, about
from slipstream.config.section import Settings, WrongKeyError, build, shown, to_mapping
from slipstream.config.sections import (
    CheckpointSettings,
    DenseSettings,
    EarlyStoppingSettings,
    EmbeddingSettings,
    EvaluateSettings,
    LogSettings,
    ModelSettings,
    OrderSettings,
    PlacementSettings,
    ScheduleSettings,
    SkipSettings,
)
from slipstream.errors import ConfigError

if TYPE_CHECKING:
    from typing_extensions import Self

_POSITION = "a number of examples or a share such as 25%"


class Config(Settings, frozen=True, kw_only=True):
    """Everything that decides what a run does: enough to repeat it.

    Example:
        >>> config = Config(data="clicks", dense={"lr": 0.05})
        >>> config = config.with_settings(["batch_size=4096", "model.top=[64, 32]"])
        >>> config.batch_size, config.dense.lr, config.model.options
        (4096, 0.05, {'top': [64, 32]})
        >>> config.with_settings(["dense.clp=1"])
        Traceback (most recent call last):
        slipstream.config.section.WrongKeyError: There is no key dense.clp. Did you mean dense.clip?
    """

    data: Annotated[str, about("Folder of the packed data set", "a folder")] = ""
    model: ModelSettings = ModelSettings()
    strategy: Annotated[
        str | None,
        about(
            "How examples are ordered, which are skipped, and where embedding rows are; null "
            "chooses fast on a GPU and plain on a CPU",
            registry="slipstream.pipeline.strategies:STRATEGIES",
        ),
    ] = None
    seed: Annotated[Amount, about("Seed for weight initialization and shuffling")] = 0
    device: Annotated[Device, about("Device that trains", "cpu, cuda or cuda:NUMBER")] = "cpu"
    precision: Annotated[
        Literal["fp32", "tf32", "bf16"],
        about("Precision of matrix products in the dense part; tf32 needs a GPU"),
    ] = "fp32"
    compile: Annotated[
        Literal["auto", "on", "off"],
        about("Whether torch.compile compiles the dense part; auto compiles it in long runs"),
    ] = "auto"
    batch_size: Annotated[Count, about("Examples in one training step")] = 2048
    epochs: Annotated[Count, about("Passes over the training part")] = 1
    start: Annotated[Position, about("The oldest examples, which are left out", _POSITION)] = 0
    stop: Annotated[
        Position | None,
        about("The last example to train; null is the end of the log", _POSITION),
    ] = None
    shuffle: Annotated[bool, about("Whether to shuffle examples, differently in each epoch")] = (
        False
    )
    threads: Annotated[Count | None, about("Threads of the CPU to use; null uses all")] = None
    init_from: Annotated[
        str | None,
        about("Run with whose weights this run starts", "the folder of a run"),
    ] = None
    embedding: EmbeddingSettings = EmbeddingSettings()
    dense: DenseSettings = DenseSettings()
    schedule: ScheduleSettings = ScheduleSettings()
    order: OrderSettings = OrderSettings()
    skip: SkipSettings = SkipSettings()
    placement: PlacementSettings = PlacementSettings()
    evaluate: EvaluateSettings = EvaluateSettings()
    early_stopping: EarlyStoppingSettings = EarlyStoppingSettings()
    checkpoint: CheckpointSettings = CheckpointSettings()
    log: LogSettings = LogSettings()

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("start", "stop"):
            value = getattr(self, name)
            if isinstance(value, str) and value.isdigit():  # as a flag has it
                msgspec.structs.force_setattr(self, name, int(value))
            elif isinstance(value, int) and value < 0:
                raise WrongKeyError(name, f" is {value}; it must be {_POSITION}.")

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any]) -> Self:
        """The configuration that a mapping describes; keys that it leaves out have defaults."""
        return build(cls, mapping)

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Self:
        """The configuration in a YAML file; keys that it leaves out have defaults."""
        mapping, lines = files.read(Path(path))
        try:
            return cls.from_mapping(mapping)
        except WrongKeyError as wrong:
            key, keys = f"{wrong.path}.", ((".".join(at), line) for at, line in lines.items())
            inside = [line for at, line in keys if key.startswith((f"{at}.", f"{at}["))]
            line = max(inside, default=lines[()])
            raise ConfigError(f"{os.fspath(path)}, line {line}: {wrong}") from None
        except ConfigError as error:
            raise ConfigError(f"{os.fspath(path)}: {error}") from None

    def with_settings(self, settings: Iterable[str]) -> Self:
        """This configuration with some keys changed.

        Args:
            settings: Each `key=value` with the full key and the value in YAML. A mapping as a
                value replaces the whole section: keys that it leaves out have defaults.
        """
        mapping = self.to_mapping()
        for setting in settings:
            path, equals, text = setting.partition("=")
            if not equals or not path.strip():
                raise ConfigError(f"{setting!r} is not a setting; write key=value.")
            value, _ = files.parse(text, path.strip())
            _assign(mapping, path.strip(), value)
        return type(self).from_mapping(mapping)

    def to_mapping(self) -> dict[str, Any]:
        """All keys and values, as plain lists, mappings, numbers and text."""
        return to_mapping(self)

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write all keys and values to a YAML file."""
        Path(path).write_text(files.dump(self.to_mapping()), encoding="utf-8")

    def differences(self, other: Config) -> list[str]:
        """The full keys whose values differ in another configuration.

        Example:
            >>> Config(seed=1).differences(Config(dense={"lr": 0.5}))
            ['seed', 'dense.lr']
        """
        values, others = leaves(self.to_mapping()), leaves(other.to_mapping())
        paths = {**values, **others}
        return [".".join(p) for p in paths if values.get(p, ...) != others.get(p, ...)]


def leaves(value: Any, path: tuple[str, ...] = ()) -> dict[tuple[str, ...], Any]:
    """The values in a mapping of mappings, by their paths."""
    if not isinstance(value, dict) or not value:
        return {path: value}
    result: dict[tuple[str, ...], Any] = {}
    for name, inner in value.items():
        result |= leaves(inner, (*path, name))
    return result


def _assign(mapping: dict[str, Any], path: str, value: Any) -> None:
    """Set the key at a path such as `dense.lr`."""
    parts = path.split(".")
    if parts[:2] == ["embedding", "tables"] and len(parts) > 4:  # names of tables may have dots
        end = -2 if parts[-2] == "options" else -1
        parts = [*parts[:2], ".".join(parts[2:end]), *parts[end:]]
    for depth, part in enumerate(parts[:-1], 1):
        inner = mapping[part] = {} if mapping.get(part) is None else mapping[part]
        if not isinstance(inner, dict):
            above = ".".join(parts[:depth])
            problem = f" cannot be set: {above} is {shown(inner)}, not a mapping."
            raise WrongKeyError(path, problem)
        mapping = inner
    mapping[parts[-1]] = value
