"""Settings of the task `clicks`. Free of torch: the supervisor reads them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from loader.section import Effect, Section

MOST_ROWS = 1 << 31

Rows = Annotated[int, Field(ge=1, le=MOST_ROWS)]
Width = Annotated[int, Field(ge=1, le=1 << 16)]


class ModelConfig(Section):
    """The model."""

    kind: Annotated[
        Literal["logistic", "factorization", "mlp"],
        Field(
            description="logistic: a weight for each feature; factorization: besides, a vector for each feature, whose "
            "products say what pairs of features are worth; mlp: a network over the fields' sums of vectors"
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
            description="numbers in the vector of a feature, for factorization and mlp; rows of whole cache lines are "
            "the fastest: 15 and 16",
        ),
        Effect.FIXED,
    ] = 15
    hidden: Annotated[
        list[Width],
        Field(default_factory=lambda: [64, 32], max_length=16, description="widths of the hidden layers of mlp"),
        Effect.FIXED,
    ]


class LossConfig(Section):
    """The loss has no settings: it is the log-loss, times the sample's weight where the data have weights."""
