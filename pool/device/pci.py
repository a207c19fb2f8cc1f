"""What the kernel says of a card's PCIe link."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pool.device.cards import Link

BUS = Path("/sys/bus/pci/devices")
_GENERATIONS = {"2.5": 1, "5.0": 2, "5": 2, "8.0": 3, "8": 3, "16.0": 4, "32.0": 5, "64.0": 6}  # by GT/s


def link_of(properties: Any, bus: Path = BUS) -> Link | None:
    """`properties`: torch's of a CUDA device. None where they or the kernel do not say."""
    try:
        numbers = properties.pci_domain_id, properties.pci_bus_id, properties.pci_device_id
        folder = bus / "{:04x}:{:02x}:{:02x}.0".format(*numbers)
        return Link(*(
            kind(folder / f"{which}_link_{what}")
            for which in ("current", "max")
            for what, kind in (("speed", _generation), ("width", _width))
        ))  # fmt: skip
    except (AttributeError, OSError, ValueError, KeyError):
        return None


def _generation(file: Path) -> int:
    """`16.0 GT/s PCIe`, in older kernels `16 GT/s`."""
    return _GENERATIONS[file.read_text(encoding="ascii").split()[0]]


def _width(file: Path) -> int:
    return int(file.read_text(encoding="ascii"))
