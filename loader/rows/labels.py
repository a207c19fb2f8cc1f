"""Which labels a row may have."""

from __future__ import annotations

import numpy as np

from loader.rows.block import Array
from loader.rows.settings import RowsConfig


def check_labels(labels: Array, settings: RowsConfig) -> None:
    """Raises ValueError for the first that data.rows.label does not allow."""
    if settings.label == "binary":
        good = np.isin(labels, (0, 1, -1))
        expected = "0, 1 or -1"
    elif settings.label == "class":
        good = (labels >= 0) & (labels < settings.num_classes) & (labels == np.floor(labels))
        expected = f"0 to {settings.num_classes - 1}"
    else:
        return
    if not good.all():
        raise ValueError(f"expected a label of {expected} (data.rows.label), got {labels[~good][0]:g}")
