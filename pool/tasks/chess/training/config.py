"""Settings that the tasks for chess share: the loss (its defaults are those of Stockfish 15.1's network), fake
quantization, and kernels. Free of torch."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self, cast

from pydantic import BeforeValidator, Field, create_model, model_validator
from pydantic.fields import FieldInfo

from loader.section import Effect, Section, WrongKeyError
from pool.config.parts import find_steps_problem
from pool.config.schedule import MAX_STEPS


def _as_parts(value: Any) -> Any:
    """Converts the text `rows,dense` of a command line, or the list of a file, to a tuple without duplicates."""
    if isinstance(value, str):
        value = [part.strip() for part in value.split(",") if part.strip()]
    return tuple(dict.fromkeys(value)) if isinstance(value, list) and all(isinstance(v, str) for v in value) else value


FakeQuantization = Annotated[
    tuple[Literal["rows", "dense", "activations"], ...],
    BeforeValidator(_as_parts),
    Field(
        description="what training computes as the exported integers do, with the gradients of the floats: rows and "
        "bias of the first layer (a factoriser added in), weights and biases of the layers behind it, activations"
    ),
    Effect.RESULT,
]

TableDtype = Annotated[
    Literal["float32", "bfloat16"],
    Field(
        description="of the rows that the first layer sums up: bfloat16 rounds those that a batch touches to nearest "
        "even, a factoriser added and after fake_quantization. CUDA workers then read half of the bytes; CPU workers "
        "compute the same and gain nothing. Weights, bias, PSQT, sums, gradients and exported files stay float32"
    ),
    Effect.RESULT,
]

Kernels = Annotated[
    Literal["fused_first_layer", "fused", "torch"],
    Field(
        description="fused: what follows the first layer is one native operation on CPU workers, and on CUDA "
        "workers a few kernels, with the first layer; fused_first_layer: on CPU workers the first layer is part of "
        "it, where its inputs share enough rows; torch: torch's own operations. Results differ in the last digits"
    ),
    Effect.RESULT,
]

_ONE_LAMBDA = ("lambda_start", "lambda_end")  # keys that lambda_parts replaces


class LambdaPart(Section):
    """A stretch of the schedule of lambda."""

    start: Annotated[float, Field(ge=0, le=1, description="lambda at the part's first step")]
    end: Annotated[float | None, Field(ge=0, le=1, description="lambda where the part ends; none keeps it")] = None
    curve: Annotated[
        Literal["line", "cosine"],
        Field(description="its way from start to end; cosine: half a wave, flat at both ends"),
    ] = "line"
    jitter: Annotated[
        tuple[Annotated[float, Field(ge=0, le=1)], Annotated[float, Field(ge=0, le=1)]],
        Field(strict=False, description="factors of lambda_jitter where it begins and ends, along the same curve"),
    ] = (1.0, 1.0)
    steps: Annotated[
        int | None, Field(gt=0, le=MAX_STEPS, description="steps that the part lasts; the last part has none")
    ] = None


class LambdaJitter(Section):
    """Noise around lambda in training: x + n, where x is one number a step and n one a sample, both of a normal
    distribution, and lambda stays within 0 and 1. Validations have none."""

    step: Annotated[
        float, Field(ge=0, le=1, description="deviation of what all samples of a step share"), Effect.RESULT
    ] = 0.0
    step_keep: Annotated[
        float,
        Field(ge=0, lt=1, description="what remains of that at the next step; its deviation stays"),
        Effect.RESULT,
    ] = 0.0
    sample: Annotated[float, Field(ge=0, le=1, description="deviation of each sample's own part"), Effect.RESULT] = 0.0


class LossConfig(Section):
    """|target - probability of the net's output| ^ exponent, averaged.

    probability(x) = (1 + sigmoid((x - offset) / scaling) - sigmoid((-x - offset) / scaling)) / 2
    p      = probability(score);  q = probability(output)
    target = lambda * p + (1 - lambda) * (result + 1) / 2
    loss   = |target - q| ^ exponent, times 1 + asymmetry where q > target
    weight = 1 + (2 ^ weight_boost - 1) * ((p - 1/2)^2 * p * (1 - p)) ^ weight_power

    A position without a score has the result's (result + 1) / 2 for p: lambda is 0. One without a result has lambda 1.

    The loss of a batch is the mean of its positions' by these weights. With an offset of 0 probability(x) is the
    sigmoid of x / scaling.

    With mate_base, the score of a mate, |score| >= 31755, becomes
    sign(score) * (mate_base + mate_scale * mate_decay ^ max(0, 32000 - |score|)), where 32000 - |score| is its plies.

    [[loss.lambda_parts]]                              # a warm-up: from the score towards the game's result
    start = 1.0
    end = 0.7
    curve = "cosine"                                   # "line" if it is left out
    steps = 5000                                       # training steps; all but the last part need it

    [[loss.lambda_parts]]                              # a part without an end keeps lambda
    start = 0.7
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
    lambda_parts: Annotated[
        tuple[LambdaPart, ...],
        Field(
            strict=False,  # JSON's arrays are lists
            description="instead of lambda_start and lambda_end: tables of start, end, curve, jitter and steps",
        ),
        Effect.RESULT,
    ] = ()
    lambda_jitter: LambdaJitter = LambdaJitter()
    mate_base: Annotated[
        float,
        Field(ge=0, le=1e6, description="score of the longest mates, internal units; 0: mates keep their scores"),
        Effect.RESULT,
    ] = 0.0
    mate_scale: Annotated[
        float, Field(ge=0, le=1e6, description="what the shortest mate has more, internal units"), Effect.RESULT
    ] = 4000.0
    mate_decay: Annotated[
        float,
        Field(ge=0, le=1, description="what remains of that with each ply that the mate is longer"),
        Effect.RESULT,
    ] = 0.85
    exponent: Annotated[float, Field(ge=1, le=8, description="power of the difference"), Effect.RESULT] = 2.5
    weight_boost: Annotated[
        float,
        Field(
            ge=-64,
            le=64,
            description="weight of positions whose score is neither even nor decided, as a power of two; 0: all alike",
        ),
        Effect.RESULT,
    ] = 0.0
    weight_power: Annotated[
        float, Field(ge=0, le=8, description="how fast that weight falls towards the others"), Effect.RESULT
    ] = 0.5
    asymmetry: Annotated[
        float,
        Field(ge=-1, le=1e3, description="what a position weighs more where the net's probability is too high"),
        Effect.RESULT,
    ] = 0.0

    @property
    def weighs(self) -> bool:
        """Whether positions count by weights of their own."""
        return self.weight_boost != 0 or self.asymmetry != 0

    @model_validator(mode="after")
    def _lambda_is_one_schedule(self) -> Self:
        """Checks the steps of lambda_parts, and that lambda_start and lambda_end are not set beside them."""
        if problem := find_steps_problem(self.lambda_parts, "lambda_parts", "training steps"):
            key, _, why = problem.partition(": ")
            raise WrongKeyError(why, *key.split("."))
        for key in _ONE_LAMBDA:
            default = type(self).model_fields[key].default
            if self.lambda_parts and getattr(self, key) != default:
                raise WrongKeyError(
                    f"does nothing beside lambda_parts: leave it out, or set it to {default:g}; "
                    "lambda_parts = [] sets none",
                    key,
                )
        return self


def with_defaults(**defaults: float) -> type[LossConfig]:
    """Returns a subclass of LossConfig with other defaults."""
    fields = {name: LossConfig.model_fields[name] for name in defaults}
    changed = {
        name: (field.annotation, FieldInfo.merge_field_infos(field, default=defaults[name]))
        for name, field in fields.items()
    }
    section = create_model("LossConfig", __base__=LossConfig, __doc__=LossConfig.__doc__, **changed)  # type: ignore[call-overload]
    return cast(type[LossConfig], section)
