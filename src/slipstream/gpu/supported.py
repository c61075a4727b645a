"""Which row optimizers and poolings have kernels for a GPU."""

from __future__ import annotations

from slipstream.errors import ConfigError
from slipstream.tables.spec import Layout

OPTIMIZERS = ("sgd", "adagrad", "rowwise_adagrad", "adam")
KINDS = ("single", "sum", "mean", "sequence")


def check_supported(layout: Layout) -> None:
    """Raise an error where a table or column needs a kernel that the GPU does not have."""
    for table in layout.tables:
        optimizer = table.chosen_optimizer.name
        if optimizer not in OPTIMIZERS:
            raise ConfigError(
                f"Table {table.name!r} uses the row optimizer {optimizer}, which has no "
                f"kernel for a GPU: train on cpu, or choose one of {', '.join(OPTIMIZERS)}."
            )
    for feature in layout.features:
        if feature.kind not in KINDS:
            raise ConfigError(
                f"Column {feature.column!r} is pooled by {feature.kind}, which has no kernel for a "
                "GPU: train on cpu, or pool it by sum or mean."
            )
