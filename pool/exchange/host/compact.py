"""Gradients of a table as its touched rows alone, one after the other: where a bucket's rows lie among them."""

from __future__ import annotations

from pool.exchange.plan import Bucket
from pool.kernels.fold import Touched, within


def compact_rows(touched: Touched, bucket: Bucket, num_rows: int) -> slice:
    """Tells which of the rows that a batch touched, of a table of `num_rows` rows, the bucket holds, in the list's
    order."""
    begin, end = within(touched, *(bucket.rows or (0, num_rows)))
    return slice(begin, end)
