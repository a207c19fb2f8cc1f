"""Configs that mean the same as before keep their bits: weights and optimizer state of whole runs, as on record."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.digests import OF_THE_TOY, RECORDED, all_runs, here


def test_runs_end_with_the_bits_on_record(tmp_path: Path) -> None:
    """A change that means to change numbers records new ones (`python -m tests.digests --record`), and says so."""
    known = json.loads(RECORDED.read_text(encoding="utf-8"))
    if here() not in known:
        pytest.skip(f"no digests on record for {here()}")
    found = {name: digest for name, digest in all_runs(tmp_path) if name not in OF_THE_TOY}
    assert found == known[here()]
