"""Settings of the loss of networks for chess; the defaults are those of Stockfish 15.1's network. Free of torch."""

from __future__ import annotations

from typing import Annotated, cast

from pydantic import Field, create_model
from pydantic.fields import FieldInfo

from loader.section import Effect, Section


class LossConfig(Section):
    """|target - probability of the net's output| ^ exponent, averaged.

    probability(x) = (1 + sigmoid((x - offset) / scaling) - sigmoid((-x - offset) / scaling)) / 2
    target = lambda * probability(score) + (1 - lambda) * (result + 1) / 2
    """

    output_unit: Annotated[
        float,
        Field(ge=1e-3, le=1e6, description="internal units (the score's) in one unit of the net's output"),
        Effect.RESULT,
    ] = 600.0
    in_offset: Annotated[
        float, Field(ge=-1e6, le=1e6, description="offset for the net's output, internal units"), Effect.RESULT
    ] = 270.0
    in_scaling: Annotated[
        float, Field(ge=1e-3, le=1e6, description="scaling for the net's output, internal units"), Effect.RESULT
    ] = 340.0
    out_offset: Annotated[
        float, Field(ge=-1e6, le=1e6, description="offset for the score of the entry, internal units"), Effect.RESULT
    ] = 270.0
    out_scaling: Annotated[
        float, Field(ge=1e-3, le=1e6, description="scaling for the score of the entry, internal units"), Effect.RESULT
    ] = 380.0
    lambda_start: Annotated[
        float,
        Field(ge=0, le=1, description="weight of the score against the game's result, at the first step"),
        Effect.RESULT,
    ] = 1.0
    lambda_end: Annotated[
        float, Field(ge=0, le=1, description="the same at the last step; linear in between"), Effect.RESULT
    ] = 1.0
    exponent: Annotated[float, Field(ge=1, le=8, description="power of the difference"), Effect.RESULT] = 2.5


def with_defaults(**defaults: float) -> type[LossConfig]:
    """The same keys, with other defaults for those given."""
    fields = {name: LossConfig.model_fields[name] for name in defaults}
    changed = {
        name: (field.annotation, FieldInfo.merge_field_infos(field, default=defaults[name]))
        for name, field in fields.items()
    }
    made = create_model("LossConfig", __base__=LossConfig, __doc__=LossConfig.__doc__, **changed)  # type: ignore[call-overload]
    return cast(type[LossConfig], made)
