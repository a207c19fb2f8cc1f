"""Lists the optimizers that compute each number, or each row of a table, independently of all others.

With these a parameter can be stepped in several parts, and the result has the same bits.
"""

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
