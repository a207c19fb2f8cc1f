"""The schema of a batch of positions: active features, score, result, ply, number of pieces and side to move."""

from __future__ import annotations

from loader import _native
from loader.chess.output_buckets import num_buckets
from loader.stream.config import DataConfig
from loader.stream.schema import BatchSchema, DenseField, SparseField

FIELD = "features"
DENSE = (
    DenseField("score", "int16"),  # in the file's units, side to move's view
    DenseField("result", "int8"),  # -1, 0, 1, side to move's view; -128: none
    DenseField("ply", "uint16"),
    DenseField("piece_count", "uint8"),  # kings included
    DenseField("side_to_move", "uint8"),  # 0 white, 1 black
)


def batch_schema(config: DataConfig) -> BatchSchema:
    """Returns the layout of a batch of positions for the settings of [data.chess].

    The sparse field `features` has two bags of active features for each of B positions: bags 0 to B - 1 from the view
    of the side to move, B to 2B - 1 from the opponent's. Raises ValueError for an unknown feature set, and for king
    buckets that do not fit it.
    """
    chess = config.settings
    try:
        num_inputs, max_active = _native.describe_feature_set(chess.features, chess.king_buckets)
    except ValueError as error:
        raise ValueError(f"data.chess.{error}") from None
    field = SparseField(FIELD, num_inputs, max_active=max_active, bags_per_sample=2)
    return BatchSchema(config.batch_size, sparse=(field,), dense=DENSE, num_buckets=num_buckets(chess.output_buckets))
