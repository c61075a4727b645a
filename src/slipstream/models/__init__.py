"""The models: each the dense part of a click predictor, about a hundred lines in its own file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from slipstream.config.section import build
from slipstream.data.schema import Schema
from slipstream.errors import ConfigError, did_you_mean
from slipstream.models.dcn import Dcn
from slipstream.models.deepfm import DeepFm
from slipstream.models.dlrm import Dlrm
from slipstream.models.inputs import ModelInputs, Statistics
from slipstream.models.model import Model
from slipstream.models.tbsm import Tbsm
from slipstream.models.wide_deep import WideDeep

__all__ = ["MODELS", "Dcn", "DeepFm", "Dlrm", "Model", "Tbsm", "WideDeep", "build_model"]

MODELS: dict[str, type[Model]] = {
    "dlrm": Dlrm,
    "tbsm": Tbsm,
    "dcn": Dcn,
    "deepfm": DeepFm,
    "wide_deep": WideDeep,
}


def build_model(
    name: str,
    schema: Schema,
    *,
    lengths: Mapping[str, int] | None = None,
    seed: int = 0,
    table_settings: Mapping[str, Any] | None = None,
    tables: Mapping[str, Mapping[str, Any]] | None = None,
    statistics: Statistics | None = None,
    **config: Any,
) -> Model:
    """A model for a data set, with fresh weights.

    Args:
        name: One of `MODELS`.
        schema: What the inputs of the data set consist of.
        lengths: For each sequence column the steps it is padded to; only tbsm needs them.
        seed: Of the dense weights.
        table_settings: For all embedding tables: `dim`, `optimizer`, `storage`, `init`. Left out,
            a dim is the model's, an init what is customary for it. Tables of linear weights keep
            their own dim (1) and init (zeros).
        tables: The same by table name, going before those for all.
        statistics: The mean and the deviation of each dense value, for `normalize_dense`.
        config: The model's own options: the fields of its `Config`.

    Example:
        >>> from slipstream.models import build_model
        >>> model = build_model("dlrm", dataset.schema, dim=8, tables={"ad": {"dim": 4}})
        >>> [(group.dim, len(group.tables)) for group in model.layout.groups]
        [(8, 6), (4, 1)]
    """
    if name not in MODELS:
        raise ConfigError(f"There is no model {name!r}.{did_you_mean(name, MODELS)}")
    kind = MODELS[name]
    options = build(kind.Config, config, "model")
    inputs = ModelInputs(schema, lengths or {}, table_settings or {}, tables or {}, statistics)
    return kind(inputs, options, torch.Generator().manual_seed(seed))
