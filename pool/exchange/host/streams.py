"""The streams of a worker on a device."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Streams:
    device: torch.device
    inward: torch.Stream  # copies weights
    outward: torch.Stream  # copies gradients

    @classmethod
    def of(cls, device: torch.device) -> Streams:
        return cls(device, torch.Stream(device=device), torch.Stream(device=device))

    @property
    def here(self) -> torch.Stream:
        """The stream that computes."""
        return torch.accelerator.current_stream(self.device)
