"""The task `clicks`, as the runtime calls it (see pool.task.task.Task)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from loader.files.whole_file import temporary_path
from loader.stream.schema import BatchSchema
from pool.checkpoint import tensor_file
from pool.checkpoint.store import tensor_bytes
from pool.metrics.classification import AUC, Accuracy, GroupedAUC, LogLoss
from pool.metrics.metric import Metric
from pool.nn.batch import TensorBatch
from pool.task.task import Progress
from pool.tasks.clicks.config import LossConfig, ModelConfig
from pool.tasks.clicks.model import KINDS, Clicks

LABEL, WEIGHT, GROUP = "label", "weight", "qid"  # dense fields; weights and groups are optional
FORMAT = "sparsepool clicks 1"


class ClicksTask:
    """Trains a model that predicts a sample's class from sparse and dense fields."""

    def __init__(self, model: ModelConfig, loss: LossConfig) -> None:
        self._config = model
        self._loss = loss

    def check(self, schema: BatchSchema) -> None:
        """Checks that the fields of the data are those of the model's settings, and that there are labels. Raises
        ValueError that names the config key."""
        self._check_fields(schema)
        dense_names = [field.name for field in schema.dense]
        model_names = list(self._config.dense or ())
        for name in (LABEL, *model_names):
            if name not in dense_names:
                raise ValueError(
                    f"task: clicks needs the dense field {name!r}; the data have {', '.join(dense_names) or 'none'}"
                )
        for field in schema.sparse:
            if field.name not in self._config.fields:
                raise ValueError(
                    f"model.fields: the data have {field.name}, too: name it there, or leave it out of the data"
                )
        for name in dense_names:
            if name not in (LABEL, WEIGHT, GROUP, *model_names):
                raise ValueError(f"model.dense: the data have {name}, too: name it there, or leave it out of the data")

    def _check_fields(self, schema: BatchSchema) -> None:
        """Raises ValueError if a sparse field of the model's settings is not one of the data's."""
        data_fields = {field.name: field for field in schema.sparse}
        text = ", ".join(f"{field.name} = {field.num_features}" for field in schema.sparse)
        for name, rows in self._config.fields.items():
            if name not in data_fields:
                raise ValueError(f"model.fields.{name}: the data have no such field; they have {{ {text} }}")
            field = data_fields[name]
            if field.num_features != rows:
                raise ValueError(
                    f"model.fields.{name}: {rows}, but the data have features up to {field.num_features}; the "
                    f"fields of the data are {{ {text} }}"
                )
            if field.bags_per_sample != 1:
                raise ValueError(f"model.fields.{name}: a sample has {field.bags_per_sample} bags of it, not one")

    def build_model(self) -> nn.Module:
        return KINDS[self._config.kind](self._config)

    def initialize(self, model: nn.Module) -> None:
        """Changes nothing: a run begins with the weights that `build_model` draws."""

    def loss(self, model: nn.Module, batch: TensorBatch, progress: Progress) -> Tensor:  # noqa: ARG002
        """Returns the mean loss of a batch: log-loss in nats, times the samples' weights."""
        return self._log_loss(model(batch), batch)

    def after_step(self, model: nn.Module) -> None:
        """Clips nothing: weights are free."""

    def metrics(self, schema: BatchSchema) -> Mapping[str, Metric]:
        """Returns AUC and log-loss for two classes, or accuracy and log-loss for more. With groups in the data there is
        the mean AUC within groups, too."""
        dense_names = [field.name for field in schema.dense]
        weights = "weights" if WEIGHT in dense_names else None
        classes = self._config.classes
        log_loss = LogLoss(weights=weights, classes=classes)
        if classes > 2:
            return {"accuracy": Accuracy(weights=weights, classes=classes), "log_loss": log_loss}
        if GROUP in dense_names:
            gauc = GroupedAUC("groups", weights=weights)
            return {"auc": AUC(weights=weights), "gauc": gauc, "log_loss": log_loss}
        return {"auc": AUC(weights=weights), "log_loss": log_loss}

    def validate(self, model: nn.Module, batch: TensorBatch, progress: Progress) -> tuple[Tensor, Mapping[str, Tensor]]:  # noqa: ARG002
        """Returns the loss of a batch, and the arrays that the metrics need: scores, labels and, if the data have them,
        weights and (for two classes) groups."""
        scores = model(batch)
        arrays = {"scores": scores, "labels": batch.dense[LABEL]}
        if WEIGHT in batch.dense:
            arrays["weights"] = batch.dense[WEIGHT]
        if GROUP in batch.dense and scores.ndim == 1:
            arrays["groups"] = batch.dense[GROUP]
        return self._log_loss(scores, batch), arrays

    def predict(self, model: nn.Module, batch: TensorBatch) -> Tensor:
        """Returns probabilities: [batch] of class 1 if there are two classes, else [batch, classes]."""
        scores: Tensor = model(batch)
        if scores.ndim == 1:
            return scores.sigmoid()
        return scores.softmax(1)

    def export(self, model: nn.Module, path: Path, description: str) -> None:
        """Writes the model's tensors as a .safetensors file, whose header says how to compute scores from them.

        Equal models have equal files. The package safetensors does not promise that, as it orders the header's texts at
        random.
        """
        config = self._config
        metadata = {
            "format": FORMAT,
            "kind": config.kind,
            "fields": json.dumps(config.fields),
            "classes": str(config.classes),
            "dense": json.dumps(config.dense or []),
            "dense_log": json.dumps(config.dense_log),
            "dense_clip": str(config.dense_clip),
            "description": description,
        }
        tensors: dict[str, Tensor] = dict(model.named_parameters())
        assert isinstance(model, Clicks)
        if model.numbers is not None:
            tensors |= {"numbers.mean": model.numbers.mean, "numbers.deviation": model.numbers.deviation}
        temporary = temporary_path(path)
        try:
            tensor_file.write(temporary, tensor_bytes(tensors), metadata)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)

    def _log_loss(self, scores: Tensor, batch: TensorBatch) -> Tensor:
        """Returns the mean of weight x log-loss, in nats. A label that is no class number raises ValueError on a CPU.
        On another device it makes the loss NaN, as reading it there would wait for the device."""
        labels = batch.dense[LABEL]
        class_numbers = labels.clamp(0, self._config.classes - 1).floor()
        if labels.device.type == "cpu" and not torch.equal(labels, class_numbers):
            raise self._label_error(float(labels[labels != class_numbers][0]))
        if scores.ndim == 1:
            losses = nn.functional.binary_cross_entropy_with_logits(scores, labels, reduction="none")
        else:
            losses = nn.functional.cross_entropy(scores, class_numbers.long(), reduction="none")
        if WEIGHT in batch.dense:
            losses = losses * batch.dense[WEIGHT]
        if labels.device.type != "cpu":
            losses = torch.where(labels == class_numbers, losses, torch.nan)
        return losses.mean()

    def _label_error(self, label: float) -> ValueError:
        """Returns the error about a label that is no class number."""
        advice = '= "binary" reads -1 as 0' if label == -1 else "says what labels are"
        return ValueError(
            f"label {label:g} in the data: model.classes = {self._config.classes} takes the class numbers 0 to "
            f"{self._config.classes - 1}; data.rows.label {advice}"
        )
