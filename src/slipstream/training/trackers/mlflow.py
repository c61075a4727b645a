"""MLflow: an MLflow run in the experiment `slipstream`, or in that of MLFLOW_EXPERIMENT_NAME."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from slipstream.training.trackers import figures_of

_FOLDER = "slipstream.folder"


class MLflow:
    """Logs to where MLFLOW_TRACKING_URI points. A resumed run goes on with its MLflow run."""

    needs = (("mlflow", "mlflow-skinny"),)

    def __init__(self, folder: Path, config: Mapping[str, Any], position: int) -> None:
        from mlflow import MlflowClient
        from mlflow.entities import Metric

        self._metric = Metric
        self._client = MlflowClient()
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", "slipstream")
        experiment = self._client.get_experiment_by_name(name)
        number = experiment.experiment_id if experiment else self._client.create_experiment(name)
        tags = {_FOLDER: str(folder.resolve())}
        runs = self._client.search_runs([number], f"tags.`{_FOLDER}` = '{tags[_FOLDER]}'")
        run = runs[0] if runs and position else None
        if run is None:
            run = self._client.create_run(number, tags=tags, run_name=folder.name)
            for key, value in config.items():
                text = value if isinstance(value, str) else json.dumps(value)
                self._client.log_param(run.info.run_id, key, text[:6000])
        self._run = run.info.run_id
        self._client.update_run(self._run, status="RUNNING")

    def log(self, line: Mapping[str, Any]) -> None:
        """Log the numbers of a line."""
        now, position = time.time_ns() // 1_000_000, line["position"]
        metrics = [self._metric(name, value, now, position) for name, value in figures_of(line)]
        self._client.log_batch(self._run, metrics)

    def close(self) -> None:
        """End the MLflow run."""
        self._client.set_terminated(self._run)
