"""The fields of a batch of positions."""

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
    """Bags 0 .. B - 1 of `features` are the side to move's perspective, B .. 2B - 1 the opponent's.

    Raises ValueError for settings of a feature set that there is none of.
    """
    chess = config.settings
    try:
        num_inputs, max_active = _native.describe_feature_set(chess.features, chess.king_buckets)
    except ValueError as error:
        raise ValueError(f"data.chess.{error}") from None
    field = SparseField(FIELD, num_inputs, max_active=max_active, bags_per_sample=2)
    return BatchSchema(config.batch_size, sparse=(field,), dense=DENSE, num_buckets=num_buckets(chess.output_buckets))
