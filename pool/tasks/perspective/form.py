"""From the section [model] to the network's shape and the tensors of its file. Free of torch."""

from __future__ import annotations

from loader import _native
from loader.chess.output_buckets import num_buckets
from pool.tasks.chess.positions import Inputs
from pool.tasks.perspective.config import ModelConfig
from pool.tasks.perspective.files.export_list import export_list
from pool.tasks.perspective.files.shape import Shape
from pool.tasks.perspective.files.tensors import ExportTensor

FACTORISED = "^"  # ends the name of a feature set with virtual inputs


def shape_of(model: ModelConfig) -> Shape:
    """Raises ValueError if there is no such network."""
    if model.features is None or model.output_buckets is None:
        raise ValueError("model.features and model.output_buckets: not set, and there is no [data.chess] to have them")
    inputs = Inputs(model.features.removesuffix(FACTORISED), model.king_buckets or ())
    try:
        real = _native.describe_feature_set(*inputs)[0]
        virtual = _native.describe_feature_set(model.features, inputs.king_buckets)[0] - real
    except ValueError as error:
        raise ValueError(f"data.chess.{error}") from None
    return Shape(
        inputs=inputs,
        num_real=real,
        num_virtual=virtual,
        width=model.width,
        activation=model.activation,
        hidden=model.hidden,
        hidden_activation=model.hidden_activation,
        output_buckets=model.output_buckets,
        buckets=num_buckets(model.output_buckets),
    )


def export_of(model: ModelConfig, shape: Shape) -> tuple[ExportTensor, ...]:
    """The tensors of an exported file. Raises ValueError for a list that does not fit the network."""
    return export_list(model.export_as, model.export, shape)


def folded(model: ModelConfig, shape: Shape) -> ModelConfig:
    """The section of the network without a factoriser that `Shape.fold` makes."""
    assert model.features is not None
    entries = tuple(entry.model_copy(update={"merge": None}) for entry in export_of(model, shape))
    return model.model_copy(update={"features": model.features.removesuffix(FACTORISED), "export": entries})


def clips_of(model: ModelConfig, shape: Shape) -> dict[str, float]:
    """What the tensors of the network are clamped to +- of, by name. Raises ValueError for a tensor that it has not."""
    for name in model.clip_tensors:
        if name not in shape.tensors:
            raise ValueError(f"model.clip_tensors: this network has no {name}; it has {', '.join(shape.tensors)}")
    behind = {name: model.clip_weights for name in shape.tensors if not name.startswith("l0")}
    return {name: limit for name, limit in {**behind, **model.clip_tensors}.items() if limit}
