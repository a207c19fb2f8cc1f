"""Settings of the task `perspective`. The defaults are those of bullet's first example. Free of torch, as the
supervisor reads them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from loader.chess.output_buckets import OutputBuckets
from loader.section import Effect, Section, as_tuple
from pool.tasks.chess.training.config import FakeQuantization, Kernels, TableDtype, with_defaults

MAX_WIDTH = 1 << 14
_FROM_DATA = ("features", "king_buckets", "output_buckets")

BLOCKS = ("pieces", "threats", "pawn_pairs")  # names of the blocks of rows of l0w

Kind = Literal["i8", "i16", "i32", "f32"]
HiddenActivation = Literal["crelu", "screlu", "dual", "hard_swish", "gated"]


class ExportTensor(Section):
    """One tensor of an exported file."""

    weight: Annotated[
        str,
        Field(
            pattern=rf"^l[0-9]+([bfw]|fb|fw)$|^l0w\[({'|'.join(BLOCKS)})\]$",
            description="l0w and l0b (first layer), l0f (its factoriser), l1w, ...; l2fw, l2fb (what all buckets of "
            "layer 2 share); l0w[pieces], l0w[threats], l0w[pawn_pairs]: blocks of the rows of l0w, in its place",
        ),
    ]
    merge: Annotated[
        str | None,
        Field(
            pattern="^l[0-9]+(f|fb|fw)$",
            description="l0f: added to l0w or l0w[pieces], under every king bucket; l2fw: added to l2w in every output "
            "bucket; l2fb: to l2b",
        ),
    ] = None
    type: Annotated[Kind, Field(description="of the numbers in the file")] = "f32"
    scale: Annotated[float, Field(gt=0, le=1e9, description="numbers of the file are the weights times this")] = 1.0
    round: Annotated[
        bool, Field(description="integers are rounded, halves away from zero; if false, cut off towards zero")
    ] = True
    transpose: Annotated[
        bool, Field(description="output by output; if false, input by input: all outputs of the first, ...")
    ] = False
    chunk: Annotated[
        int | None,
        Field(
            ge=1,
            le=64,
            description="of a layer behind the first, instead of transpose: output bucket by output bucket, in each so "
            "many inputs at a time, side by side for each output: 4 as engines with int8 sums read it, 1 is input by "
            "input",
        ),
    ] = None


class ModelConfig(Section):
    """The network."""

    features: Annotated[
        str | None, Field(description="what the inputs are; not set: as data.chess.features says"), Effect.FIXED
    ] = None
    king_buckets: Annotated[
        tuple[Annotated[int, Field(ge=0, le=63)], ...] | None,
        BeforeValidator(as_tuple),
        Field(description="of the inputs; not set: as data.chess.king_buckets says"),
        Effect.FIXED,
    ] = None
    output_buckets: Annotated[
        OutputBuckets | None,
        Field(description="rule by name or table of 33 numbers; not set: as data.chess.output_buckets says"),
        Effect.FIXED,
    ] = None
    width: Annotated[
        int,
        Field(
            gt=1,
            le=MAX_WIDTH,
            multiple_of=2,
            description="N, outputs of the first layer for each side; engines in Rust want a multiple of 32",
        ),
        Effect.FIXED,
    ] = 128
    activation: Annotated[
        Literal["crelu", "screlu", "pairwise"],
        Field(
            description="of the first layer's outputs: clamped to 0 .. 1; the same squared; or clamped and the first "
            "half multiplied by the second"
        ),
        Effect.FIXED,
    ] = "screlu"
    hidden: Annotated[
        tuple[Annotated[int, Field(ge=1, le=1024)], ...],
        BeforeValidator(as_tuple),
        Field(max_length=8, description="outputs of the layers between the first and the last"),
        Effect.FIXED,
    ] = ()
    hidden_activation: Annotated[
        HiddenActivation | tuple[HiddenActivation, ...],
        BeforeValidator(as_tuple),
        Field(
            description="of those layers' outputs y, for all or a list with one for each: crelu, clamp(y, 0, 1); "
            "screlu, its square; dual, crelu of all, then min(y * y, 1) of all; hard_swish, y * gate(y), gate(y) = "
            "clamp(y / 6 + 1/2, 0, 1); gated, twice the outputs, the first half times gate of the second"
        ),
        Effect.FIXED,
    ] = "screlu"
    skip: Annotated[
        bool,
        Field(
            description="the last layer's inputs are the activations of all hidden layers: those of the last one, "
            "then of the first, the second, ..."
        ),
        Effect.FIXED,
    ] = False
    factorised_layers: Annotated[
        tuple[Annotated[int, Field(ge=1, le=9)], ...],
        BeforeValidator(as_tuple),
        Field(
            description="layers behind the first that have, besides each output bucket's own weights and biases, some "
            "that are added in every bucket: l2fw and l2fb of layer 2"
        ),
        Effect.FIXED,
    ] = ()
    sparsity_penalty: Annotated[
        float,
        Field(
            ge=0,
            le=1e3,
            description="added to the loss in training: this times the mean of the first layer's activations. Engines "
            "skip those that are 0",
        ),
        Effect.RESULT,
    ] = 0.0
    clip_weights: Annotated[
        float,
        Field(
            ge=0,
            le=1e3,
            description="after each step, weights and biases behind the first layer are clamped to +- this; 0: they "
            "are not",
        ),
        Effect.RESULT,
    ] = 1.98
    clip_tensors: Annotated[
        dict[str, Annotated[float, Field(ge=0, le=1e3)]],
        Field(
            default_factory=dict,
            description="limits for single tensors, in the place of clip_weights: { l0w = 1.98, l1b = 2.0 }, or "
            'blocks of l0w: { "l0w[threats]" = 0.49 }; with a factoriser that of l0w is for the sum of both, which is '
            "what is exported. 0: not clamped",
        ),
        Effect.RESULT,
    ]
    fake_quantization: FakeQuantization = ()
    table_dtype: TableDtype = "float32"
    kernels: Kernels = "fused"
    export_as: Annotated[
        Literal["auto", "simple", "output_buckets", "input_buckets", "multi_layer"],
        Field(
            description="the tensors of an exported file, as in bullet's example of that name, and so how "
            "fake_quantization rounds; auto: the one with a network of this shape"
        ),
        Effect.RESULT,
    ] = "auto"
    export: Annotated[
        tuple[ExportTensor, ...],
        Field(
            strict=False,  # JSON's arrays are lists
            description="instead of export_as: tables of weight, merge, type (i8, i16, i32, f32), scale, round, "
            "transpose and chunk, one tensor after the other",
        ),
        Effect.RESULT,
    ] = ()
    start_from: Annotated[
        str | None,
        Field(
            min_length=1,
            description="a file of such a network (*raw.bin and *weights.bin hold its floats, any other name a "
            "quantised file), or the folder of a checkpoint or of a run, whose weights the run starts with",
        ),
        Effect.SAVED,
    ] = None


# Of bullet's examples: scale 400, squared error, 0.75 of the target is the game's result.
LossConfig = with_defaults(
    output_unit=400.0,
    in_offset=0.0,
    in_scaling=400.0,
    out_offset=0.0,
    out_scaling=400.0,
    lambda_start=0.25,
    lambda_end=0.25,
    exponent=2.0,
)


def complete_model(model: ModelConfig, data: Any) -> ModelConfig:
    """Returns the model's settings with the inputs and output buckets of the data's settings. Raises ValueError if the
    model's settings name others."""
    of_data = {key: getattr(data, key) for key in _FROM_DATA if hasattr(data, key)}
    for key, value in of_data.items():
        own = getattr(model, key)
        if own is not None and own != value:
            raise ValueError(f"model.{key}: {own!r} is not data.chess.{key}, {value!r}: leave it out")
    return model.model_copy(update=of_data)
