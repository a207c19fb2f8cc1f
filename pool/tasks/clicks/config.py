"""Settings of the task `clicks`. Free of torch, as the supervisor reads them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from loader.section import Effect, Section, as_tuple

MAX_ROWS = 1 << 31

Rows = Annotated[int, Field(ge=1, le=MAX_ROWS)]
Names = Annotated[tuple[str, ...], BeforeValidator(as_tuple)]
Width = Annotated[int, Field(ge=1, le=1 << 16)]


class ModelConfig(Section):
    """The model."""

    kind: Annotated[
        Literal["logistic", "factorization", "mlp", "dcn"],
        Field(
            description="logistic: a weight for each feature; factorization: besides, a vector for each feature, whose "
            "products say what pairs of features are worth; mlp: a network over the fields' sums of vectors; dcn: the "
            "same behind layers that cross them with one another"
        ),
        Effect.FIXED,
    ] = "logistic"
    fields: Annotated[
        dict[str, Rows],
        Field(
            default_factory=lambda: {"features": 1 << 20},
            min_length=1,
            max_length=256,
            description="sparse fields that the model reads, with their numbers of features",
        ),
        Effect.FIXED,
    ]
    dense: Annotated[
        Names | None,
        Field(
            description="dense numbers that the model reads, each standardised by its mean and deviation in training; "
            "not set: those of data.rows.dense"
        ),
        Effect.FIXED,
    ] = None
    dense_log: Annotated[
        Names,
        Field(description="of these, the ones that count as sign(x) log(1 + |x|): prices, numbers of things"),
        Effect.FIXED,
    ] = ()
    dense_clip: Annotated[
        float,
        Field(ge=0, le=1e6, description="standardised numbers are clamped to +- this; 0: they are not"),
        Effect.FIXED,
    ] = 0.0
    classes: Annotated[
        int,
        Field(ge=2, le=4096, description="labels are 0 to classes - 1; 2: one score, that of class 1"),
        Effect.FIXED,
    ] = 2
    rank: Annotated[
        int,
        Field(
            ge=1,
            le=1024,
            description="numbers in the vector of a feature, but for logistic; rows of whole cache lines are "
            "the fastest: 15 and 16",
        ),
        Effect.FIXED,
    ] = 15
    hidden: Annotated[
        list[Width],
        Field(
            default_factory=lambda: [64, 32], max_length=16, description="widths of the hidden layers of mlp and dcn"
        ),
        Effect.FIXED,
    ]
    cross_layers: Annotated[int, Field(ge=1, le=16, description="layers of dcn that cross"), Effect.FIXED] = 2


def complete_model(model: ModelConfig, data: Any) -> ModelConfig:
    """Returns the model's settings with the dense numbers that the data's settings name, if the model's name none.
    Raises ValueError for a name in dense_log that is none of the model's numbers, and for data without labels."""
    if getattr(data, "label", None) == "none":
        raise ValueError("data.rows.label: none leaves out the labels that the task clicks needs; pool predict sets it")
    dense = getattr(data, "dense", ()) if model.dense is None else model.dense
    for name in model.dense_log:
        if name not in dense:
            raise ValueError(f"model.dense_log: {name!r} is none of the model's numbers, {', '.join(dense) or 'none'}")
    return model.model_copy(update={"dense": tuple(dense)})


class LossConfig(Section):
    """The loss has no settings: it is the log-loss, times the sample's weight where the data have weights."""
