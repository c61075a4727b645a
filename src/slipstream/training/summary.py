"""The result of a run: `summary.json`."""

from __future__ import annotations

from typing import Any

from slipstream import gpu
from slipstream.config import Config
from slipstream.data.dataset import Dataset
from slipstream.data.manifest import versions
from slipstream.number_format import log_part
from slipstream.pipeline.engine import Engine
from slipstream.pipeline.place.counting import per_input
from slipstream.pipeline.strategies import default_strategy
from slipstream.training.checkpoint import weights_digest
from slipstream.training.example_order import order_of
from slipstream.training.metrics import Scores
from slipstream.training.state import RunState


def summary_of(
    config: Config,
    dataset: Dataset,
    state: RunState,
    engine: Engine,
    scores: Scores,
    host_bytes: int,
) -> dict[str, Any]:
    """The summary of a run that has ended."""
    order = order_of(config, dataset)
    oracle = (dataset.manifest.oracle or {}).get("evaluation")
    skipped = state.position - state.inputs_trained
    return {
        "strategy": config.strategy or default_strategy(config.device),
        "model": config.model.name,
        "dataset": str(dataset.folder.absolute()) if dataset.folder else "in memory",
        "seed": config.seed,
        "device": config.device,
        **scores,
        "oracle_auc": oracle["auc"] if oracle else None,
        "init_from": state.init_from,
        "trained_part": log_part(order.start, order.start + order.per_epoch, order.examples),
        "inputs_total": state.total,
        "inputs_trained": state.inputs_trained,
        "inputs_skipped": skipped,
        "skip_share": skipped / state.position,
        **_tiers(engine, state),
        "curve": [{"share": _share(point, state), "auc": point["auc"]} for point in state.curve],
        "train_seconds": state.train_seconds,
        "samples_per_second": state.position / state.train_seconds,
        "phase_seconds": state.seconds,
        "waits": state.waits,
        "peak_memory_bytes": {"host": host_bytes, "device": gpu.peak_memory(config.device)},
        "weights_digest": weights_digest(engine.tables.stores, engine.dense.weights),
        "versions": versions(),
    }


def _share(point: dict[str, Any], state: RunState) -> float:
    """The share of the run at a point of its curve; more epochs make an earlier share smaller."""
    return point["share"] if point["total"] == state.total else point["position"] / state.total


def _tiers(engine: Engine, state: RunState) -> dict[str, Any]:
    """Rows in the fast tier, and transfers between the tiers, counted from plans alone."""
    if engine.tables.mover is None:
        return {"hot_rows": 0, "hot_access_share": 0.0}
    transfers = state.transfers
    return {
        "hot_rows": state.hot_rows,
        "hot_access_share": transfers["hits"] / max(1, transfers["lookups"]),
        "transfers": {**transfers, "per_input": per_input(transfers, state.inputs_trained)},
    }
