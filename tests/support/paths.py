"""Places in the checkout that tests read."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "tests/data"
SAMPLE = ROOT / "configs/sample"
TRAINING = SAMPLE / "train.binpack"
VALIDATION = SAMPLE / "validation.binpack"
FAKEGPU = ROOT / "build/fakegpu/libfakegpu.so"
