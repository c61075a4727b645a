"""Records of runs with the numbers that a test needs."""

from pathlib import Path

from slipstream.analyze.report.runs import RunRecord


def run(strategy="plain", seed=0, *, auc=0.7, rate=1000.0, ended=True, config=None, **summary):
    """A run of 1,000 inputs at an even rate, whose AUC rises from 0.5 to its end."""
    lines = [_line("training", at, rate) for at in (100, 500, 1000)]
    curve = [(0.5, 0.5 + (auc - 0.5) / 2), (1.0, auc)] if auc is not None else []
    lines += [
        _line("evaluation", round(1000 * share), rate) | {"auc": value, "logloss": 1 - value}
        for share, value in curve
    ]
    results = {
        "auc": auc,
        "logloss": None if auc is None else 1 - auc,
        "normalized_entropy": 0.9,
        "train_seconds": 1000 / rate,
        "samples_per_second": rate,
        "skip_share": 0.0,
        "trained_part": "all 1,000 examples",
        "phase_seconds": {"plan": 0.1, "step": 0.9, "evaluate": 0.0},
        "peak_memory_bytes": {"host": 1 << 20, "device": 0},
        "weights_digest": f"{strategy} {seed}",
        "versions": {"slipstream": "0"},
    }
    keys = {"strategy": strategy, "seed": seed, "data": "", "model": {"name": "dlrm"}}
    return RunRecord(
        Path(f"runs/{strategy}-{seed}"),
        f"{strategy}-{seed}",
        keys | (config or {}),
        results | summary if ended else None,
        lines,
    )


def _line(kind, position, rate):
    return {"kind": kind, "position": position, "train_seconds": position / rate}
