"""Assigns parameters to buckets: by size and dtype, in the order given.

The rule is that of torch's DistributedDataParallel (compute_bucket_assignment_by_size): a bucket closes when
it reaches the current limit of its dtype; each dtype goes through the limits in order and stays at the last.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence


def assign_buckets(sizes: Sequence[int], dtypes: Sequence[Hashable], limits: Sequence[int]) -> list[list[int]]:
    """Buckets of indices into `sizes` (bytes each), ordered by their first index. `limits` are bytes."""
    if len(sizes) != len(dtypes) or not limits:
        raise ValueError(f"{len(sizes)} sizes, {len(dtypes)} dtypes, {len(limits)} limits")
    closed: list[list[int]] = []
    open_buckets: dict[Hashable, tuple[list[int], int]] = {}
    closed_count: dict[Hashable, int] = {}
    for index, (size, dtype) in enumerate(zip(sizes, dtypes, strict=True)):
        bucket, total = open_buckets.pop(dtype, ([], 0))
        bucket.append(index)
        total += size
        count = closed_count.get(dtype, 0)
        if total >= limits[min(count, len(limits) - 1)]:
            closed.append(bucket)
            closed_count[dtype] = count + 1
        else:
            open_buckets[dtype] = (bucket, total)
    closed += [bucket for bucket, _ in open_buckets.values()]
    return sorted(closed, key=lambda bucket: bucket[0])
