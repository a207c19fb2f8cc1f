"""Optimizers that compute each number by itself, or each row of a table: it may be stepped in parts, and the bits
are the same."""

from __future__ import annotations

ELEMENTWISE = frozenset(
    {
        "pool.optim.Adam",
        "pool.optim.AdamW",
        "pool.optim.ClippedAdamW",
        "pool.optim.FTRL",
        "pool.optim.RangerLite",
        "pool.optim.RowwiseAdagrad",
        "pool.optim.SparseAdam",
        *(
            f"torch.optim.{name}"
            for name in (
                "Adadelta",
                "Adagrad",
                "Adam",
                "AdamW",
                "Adamax",
                "ASGD",
                "NAdam",
                "RAdam",
                "RMSprop",
                "Rprop",
                "SGD",
            )
        ),
    }
)
