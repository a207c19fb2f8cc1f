"""Optimizers that compute each number by itself: a tensor may be stepped in parts, and the bits are the same."""

from __future__ import annotations

ELEMENTWISE = frozenset(
    {
        "pool.optim.Adam",
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
