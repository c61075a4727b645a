"""The configuration of a run as a whole."""

# ruff: noqa: RUF009 - `key` makes a field, as `dataclasses.field` does
from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from slipstream.config import files
from slipstream.config.keys import Section, WrongKeyError, key
from slipstream.config.mapping import assign, leaves, to_mapping, to_section
from slipstream.config.sections import (
    Checkpoint,
    Dense,
    EarlyStopping,
    Embedding,
    Evaluate,
    Log,
    Model,
    Ordering,
    Placement,
    Schedule,
)
from slipstream.config.skip import Skip
from slipstream.errors import ConfigError


@dataclass(frozen=True)
class Config(Section):
    """Everything that decides what a run does: enough to repeat it.

    Example:
        >>> config = Config(data="clicks", dense=Dense(lr=0.05))
        >>> config = config.with_settings(["batch_size=4096", "model.top=[64, 32]"])
        >>> config.batch_size, config.model.options
        (4096, {'top': [64, 32]})
        >>> config.with_settings(["dense.clp=1"])
        Traceback (most recent call last):
        slipstream.config.keys.WrongKeyError: There is no key dense.clp. Did you mean dense.clip?
    """

    data: str = key("", "Folder of the data set", allowed="a folder")
    model: Model = key(Model, "Which model, and its own keys")
    strategy: str = key(
        "plain",
        "How inputs and rows are handled",
        pattern="[a-zA-Z0-9_]+",
        allowed="the name of a strategy",
    )
    seed: int = key(0, "Of first weights and of shuffling", least=0)
    device: str = key(
        "cpu", "Where to train", pattern=r"cpu|cuda(:[0-9]+)?", allowed="cpu, cuda or cuda:NUMBER"
    )
    precision: Literal["fp32", "tf32", "bf16"] = key(
        "fp32", "Of the products of the dense part; tf32 is for a GPU"
    )
    compile: Literal["auto", "on", "off"] = key(
        "auto",
        "Compile the dense part; auto does for long runs where a compiler is found, but not for "
        "dlrm up to dim 64 on a GPU, which is kernels of its own",
    )
    batch_size: int = key(2048, "Inputs of a step", least=1)
    epochs: int = key(1, "How often every input comes", least=1)
    limit: int | None = key(None, "Use the first inputs only; null uses all", least=1)
    shuffle: bool = key(False, "Shuffle by blocks, with the seed, differently each epoch")
    threads: int | None = key(None, "Of the CPU; null uses all", least=1)
    embedding: Embedding = key(Embedding, "How rows of embedding tables are kept and moved")
    dense: Dense = key(Dense, "How the dense part of the model is trained")
    schedule: Schedule = key(Schedule, "How learning rates change")
    ordering: Ordering = key(Ordering, "In what order inputs come")
    skip: Skip = key(Skip, "Which inputs are trained")
    placement: Placement = key(Placement, "Where rows live, for strategies with a fast tier")
    evaluate: Evaluate = key(Evaluate, "When and how predictions are scored")
    early_stopping: EarlyStopping = key(EarlyStopping, "Stop when the model gets no better")
    checkpoint: Checkpoint = key(Checkpoint, "When the state of a run is saved")
    log: Log = key(Log, "What a run tells while it goes on")
    init_from: str | None = key(
        None, "Begin with the weights of another run", allowed="the folder of a run"
    )

    @classmethod
    def from_mapping(cls, given: Mapping[str, Any]) -> Config:
        """The configuration that a mapping describes; what it leaves out has its default."""
        return to_section(cls, given, "", cls)

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Config:
        """The configuration in a YAML file; what it leaves out has its default."""
        given, lines = files.read(Path(path))
        return cls.from_file(given, lines, path)

    @classmethod
    def from_file(
        cls, given: Mapping[str, Any], lines: files.Lines, path: str | os.PathLike[str]
    ) -> Config:
        """The configuration that was read from a file; what is wrong is named with its line."""
        try:
            return cls.from_mapping(given)
        except WrongKeyError as wrong:
            line = max((n for at, n in lines.items() if _holds(at, wrong.path)), default=1)
            raise ConfigError(f"{os.fspath(path)}, line {line}: {wrong}") from None
        except ConfigError as error:
            raise ConfigError(f"{os.fspath(path)}: {error}") from None

    def with_settings(self, settings: Iterable[str]) -> Config:
        """This configuration with some keys changed.

        Args:
            settings: Each `key=value` with the full key and the value in YAML. A mapping as a
                value replaces the whole section; what it leaves out has its default.
        """
        mapping = self.to_mapping()
        for setting in settings:
            path, equals, text = setting.partition("=")
            if not equals or not path.strip():
                raise ConfigError(f"{setting!r} is not a setting; write key=value.")
            value, _ = files.parse(text, path.strip())
            assign(mapping, path.strip(), value)
        return type(self).from_mapping(mapping)

    def to_mapping(self) -> dict[str, Any]:
        """All keys and values, as plain lists, mappings, numbers and text."""
        return to_mapping(self)

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write all keys and values to a YAML file."""
        Path(path).write_text(files.dump(self.to_mapping()), encoding="utf-8")

    def differences(self, other: Config) -> list[str]:
        """The full keys that have not the same value in another configuration.

        Example:
            >>> Config(seed=1).differences(Config(dense=Dense(lr=0.5)))
            ['seed', 'dense.lr']
        """
        mine, theirs = dict(leaves(self.to_mapping())), dict(leaves(other.to_mapping()))
        absent = object()
        return [
            ".".join(path)
            for path in {**mine, **theirs}
            if mine.get(path, absent) != theirs.get(path, absent)
        ]


def _holds(at: tuple[str, ...], path: str) -> bool:
    """Whether a key is the one at a path, or one above it."""
    name = ".".join(at)
    return path == name or not name or path.startswith((f"{name}.", f"{name}["))
