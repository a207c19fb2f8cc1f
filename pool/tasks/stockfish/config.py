"""Settings of the NNUE task; the defaults are the recipe that Stockfish 15.1's network was trained with.

Free of torch: the supervisor reads them.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from loader.section import Effect, Section
from pool.tasks.stockfish.quantized.arch import L1_STEP, MAX_L1


class ModelConfig(Section):
    """The network."""

    l1: Annotated[
        int,
        Field(
            gt=0,
            le=MAX_L1,
            multiple_of=L1_STEP,
            description=f"outputs of the first layer per side, a multiple of {L1_STEP}; Stockfish 15.1 loads 1024 only",
        ),
        Effect.FIXED,
    ] = 1024
    factorized: Annotated[
        bool,
        Field(
            description="train 768 extra inputs (piece and square without the king's bucket) that are added to the "
            "real ones on export; needs data.chess.features = HalfKAv2_hm^, and false needs HalfKAv2_hm"
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
            description="after each step and on export, clamp the weights of fc_0, fc_1, fc_2 to what int8 can say; "
            "if false, export refuses what does not fit"
        ),
        Effect.RESULT,
    ] = True
    kernels: Annotated[
        Literal["fused", "torch"],
        Field(
            description="fused: what follows the first layer is one native operation on CPU workers, torch's own "
            "operations elsewhere; torch: torch's own everywhere. The results differ in the last digits"
        ),
        Effect.RESULT,
    ] = "fused"
    start_from: Annotated[
        str | None,
        Field(
            min_length=1,
            description="a .nnue file of the same l1, or the folder of a checkpoint or of a run, whose weights the run "
            "starts with",
        ),
        Effect.SAVED,
    ] = None
