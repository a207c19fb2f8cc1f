"""Settings of the task `stockfish`. The defaults are the recipe that Stockfish 15.1's network was trained with.

Free of torch, as the supervisor reads them.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

import pool.tasks.chess.stockfish.halfka as halfka
from loader.chess.output_buckets import buckets_by_pieces, format_output_buckets
from loader.section import Effect, Section
from pool.tasks.chess.stockfish.versions import L1_STEP, MAX_L1, VERSIONS, Version
from pool.tasks.chess.training.config import FakeQuantization, Kernels, TableDtype

OUTPUT_BUCKETS = "stockfish"


class ModelConfig(Section):
    """The network."""

    version: Annotated[
        Literal["SFNNv5", "SFNNv6", "SFNNv8", "SFNNv9", "small", "SFNNv10", "SFNNv16"],
        Field(
            description="architecture of the network. SFNNv5: Stockfish 15.1, v6: 16, v8: 16.1, v9: 17 and 17.1, "
            "small: the second network of 16.1 to 18, v10: 18, v16: 19"
        ),
        Effect.FIXED,
    ] = "SFNNv5"
    l1: Annotated[
        int,
        Field(
            gt=0,
            le=MAX_L1,
            multiple_of=L1_STEP,
            description=f"outputs of the first layer per side, a multiple of {L1_STEP}; engines load: "
            + ", ".join(f"{version.l1} ({version.name})" for version in VERSIONS.values()),
        ),
        Effect.FIXED,
    ] = 1024
    factorized: Annotated[
        bool,
        Field(
            description="train 768 extra inputs (piece and square without the king's bucket) that are added to the "
            "real ones on export; needs data.chess.features with ^ (HalfKAv2_hm^, SFNNv16^), and false without"
        ),
        Effect.FIXED,
    ] = False
    shared_fc_0: Annotated[
        bool,
        Field(description="train one fc_0 layer more that is added to fc_0 of every bucket; folded in on export"),
        Effect.FIXED,
    ] = True
    clip_weights: Annotated[
        bool,
        Field(
            description="after each step and on export, clamp the weights that are stored as int8 (fc_0, fc_1, fc_2, "
            "rows of threats and pawn pairs) to what it can say; "
            "if false, export refuses what does not fit"
        ),
        Effect.RESULT,
    ] = True
    fake_quantization: FakeQuantization = ()
    table_dtype: TableDtype = "float32"
    kernels: Kernels = "fused"
    start_from: Annotated[
        str | None,
        Field(
            min_length=1,
            description="a .nnue file, or a checkpoint of nnue-pytorch (.ckpt, .pt), of the same version and l1; or "
            "the folder of a checkpoint or of a run, whose weights the run starts with",
        ),
        Effect.SAVED,
    ] = None

    @property
    def architecture(self) -> Version:
        return VERSIONS[self.version]

    @property
    def first_virtual(self) -> int:
        """The number of the first virtual input. Virtual inputs follow all others, from the next multiple of 64 on."""
        return -(-self.architecture.inputs // halfka.SQUARES) * halfka.SQUARES

    @property
    def inputs(self) -> int:
        """The number of inputs of the feature set, virtual ones included."""
        return self.first_virtual + halfka.VIRTUAL if self.factorized else self.architecture.inputs

    @property
    def feature_set(self) -> str:
        """The value of data.chess.features that the model needs."""
        return self.architecture.feature_set + ("^" if self.factorized else "")


def complete_model(model: ModelConfig, data: Any) -> ModelConfig:
    """Checks that the data's settings have the engine's king buckets and output buckets, and returns the model's
    settings unchanged. Raises ValueError otherwise, even if the numbers of buckets are the same."""
    if king_buckets := getattr(data, "king_buckets", ()):
        raise ValueError(
            f"data.chess.king_buckets: {len(king_buckets)} numbers, but the inputs of Stockfish's networks have their "
            "own; leave it out"
        )
    rule = getattr(data, "output_buckets", OUTPUT_BUCKETS)
    if buckets_by_pieces(rule) != buckets_by_pieces(OUTPUT_BUCKETS):
        raise ValueError(
            f"data.chess.output_buckets: {format_output_buckets(rule)}, but Stockfish chooses by its own rule; set it "
            f"to {OUTPUT_BUCKETS}"
        )
    return model
