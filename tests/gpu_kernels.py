"""Runs with the kernels of a GPU, which Triton's interpreter runs on a CPU."""

from slipstream.gpu.planning import plan_ahead


def use_gpu_kernels(monkeypatch):
    """Have every fast tier moved by the kernels of a GPU."""
    monkeypatch.setattr(plan_ahead, "kernels_for", _kernels)


def _kernels(_, tier_sizes):
    return "cpu" if tier_sizes is None else "gpu"
