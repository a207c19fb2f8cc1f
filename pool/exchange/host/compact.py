"""Gradients of a table as its touched rows alone, one after the other: where a bucket's rows lie among them."""

from __future__ import annotations

from pool.exchange.plan import Bucket
from pool.kernels.fold import Touched, within


def compact_rows(touched: Touched, bucket: Bucket, num_rows: int) -> slice:
    """Of a table of `num_rows` rows of which a batch touched those listed: which of them, in the list's order, the
    bucket holds."""
    begin, end = within(touched, *(bucket.rows or (0, num_rows)))
    return slice(begin, end)
