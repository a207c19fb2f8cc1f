"""Warnings in a worker reach the run's user: once, in one line, and not without end."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import pytest
import torch
from torch import nn
from torch.nn import functional

from pool.worker.user_warnings import MAX_SHOWN, show_warnings_to_user


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    lines: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        monkeypatch.setattr(warnings, "showwarning", lambda *_: None)  # what is on stderr otherwise
        show_warnings_to_user(lines.append)
        yield lines


def test_shapes_that_torch_broadcasts_are_told_once(said: list[str]) -> None:
    for _ in range(3):
        functional.mse_loss(torch.zeros(4), torch.zeros(4, 1))
    (line,) = said
    assert line.startswith("warning: Using a target size (torch.Size([4, 1])) that is different to the input size")
    assert "\n" not in line


def test_deprecations_are_not_told_and_what_changes_with_each_batch_only_at_first(said: list[str]) -> None:
    warnings.warn("old", DeprecationWarning, stacklevel=1)
    for batch in range(3 * MAX_SHOWN):
        warnings.warn(f"batch {batch}", RuntimeWarning, stacklevel=1)
    assert len(said) == MAX_SHOWN
    assert said[0].startswith("warning: batch 0 (")


def test_weights_that_build_model_loads_are_not_called_a_no_op(said: list[str]) -> None:
    """In a worker the model may have no memory yet; in the coordinator they are loaded."""
    with torch.device("meta"):
        model = nn.Linear(2, 2)
    model.load_state_dict({"weight": torch.ones(2, 2), "bias": torch.ones(2)})
    assert said == []
