"""The options of a preparation that every format has."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from slipstream.data.layout import ROWS_PER_SHARD
from slipstream.errors import ConfigError

Share = float | Literal["day"]
GIB = 1 << 30
_MAX_BAD = 1000
BadRows = Literal["error", "skip"]
Split = Literal["time", "random"]


@dataclass(frozen=True)
class Options:
    """How raw logs become a data set.

    Args:
        min_count: Values seen less often in training share the id of the never-seen.
        max_rows: The most rows of a table; the tail beyond shares hashed buckets.
        hash: How many hashed buckets a table has, instead of a dictionary.
        split: By `time`, or at `random`.
        validation: The share of inputs of the validation part, or `day`: the last one before
            the evaluation part.
        evaluation: The share of inputs of the evaluation part, or `day`: the last one.
        seed: Of the random split; 0 by default.
        memory: The most bytes of anonymous memory.
        bad_rows: `error` stops at the first bad row, `skip` sets bad rows aside.
        max_bad: How many bad rows to set aside at most; 1,000 by default.
        dictionary: A data set whose ids are used instead of new ones.
        extend: Whether values that are not in `dictionary` get ids behind its own.
        rows_per_shard: Inputs in every shard but a part's last.
    """

    min_count: int = 2
    max_rows: int | None = None
    hash: int | None = None
    split: Split = "time"
    validation: Share = 0.05
    evaluation: Share = 0.10
    seed: int | None = None
    memory: int = 2 * GIB
    bad_rows: BadRows = "error"
    max_bad: int | None = None
    dictionary: Path | None = None
    extend: bool = False
    rows_per_shard: int = ROWS_PER_SHARD

    def __post_init__(self) -> None:
        for name, least in (("min_count", 1), ("max_bad", 0), ("rows_per_shard", 1)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise ConfigError(f"{name} is {value}; it must be at least {least}.")
        if self.max_rows is not None and self.max_rows < 16:
            raise ConfigError(f"max_rows is {self.max_rows}; a table needs at least 16 rows.")
        if self.hash is not None and not 1 <= self.hash < 2**31:
            raise ConfigError(f"hash is {self.hash}; choose from 1 to {2**31 - 1} buckets.")
        if self.hash is not None and self.max_rows is not None:
            raise ConfigError("hash and max_rows exclude each other: hash has no dictionary.")
        if self.bad_rows not in ("error", "skip"):
            raise ConfigError(f"bad_rows is {self.bad_rows!r}; choose error or skip.")
        if self.max_bad is not None and self.bad_rows == "error":
            raise ConfigError(
                f"max_bad is {self.max_bad}, but the first bad row is an error already: add "
                "--bad-rows skip (in Python, bad_rows='skip'), or leave out max_bad."
            )
        self._check_split()
        self._check_seed()
        # The manifest records these, so defaults that depend on other options are filled in.
        if self.split == "random" and self.seed is None:
            object.__setattr__(self, "seed", 0)
        if self.bad_rows == "skip" and self.max_bad is None:
            object.__setattr__(self, "max_bad", _MAX_BAD)
        if self.extend and self.dictionary is None:
            raise ConfigError("extend needs a dictionary to extend: name a data set.")
        if self.dictionary is not None and (self.hash is not None or self.max_rows is not None):
            raise ConfigError(
                "With a dictionary its tables are as they are: leave out hash and max_rows."
            )

    def _check_seed(self) -> None:
        if self.seed is None:
            return
        if not 0 <= self.seed < 2**63:
            raise ConfigError(f"seed is {self.seed}; choose from 0 to {2**63 - 1}.")
        if self.split == "time":
            raise ConfigError(
                f"seed is {self.seed}, but a split by time draws nothing: choose the random split, "
                "or leave out seed. (The seed of a table's negatives stands in its schema.)"
            )

    def _check_split(self) -> None:
        if self.split not in ("time", "random"):
            raise ConfigError(f"split is {self.split!r}; choose time or random.")
        shares = 0.0
        for name in ("validation", "evaluation"):
            share = getattr(self, name)
            if share == "day":
                if self.split == "random":
                    raise ConfigError(f"{name} is a day; a random split has none, give a share.")
            elif isinstance(share, str) or not 0 <= share < 1:
                raise ConfigError(f"{name} is {share}; choose a share from 0 to 1, or day.")
            else:
                shares += share
        if shares >= 1:
            raise ConfigError(
                f"validation is {self.validation} and evaluation {self.evaluation}; together they "
                "must leave a share for training."
            )
