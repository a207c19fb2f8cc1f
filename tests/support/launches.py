"""What a process of a run is told, for tests of what it does with it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from loader.stream import Cursor
from pool.config.reading import parse_config
from pool.process.launch import Launch
from pool.protocol.address import new_key
from pool.protocol.identity import COORDINATOR, Peer

TREE: dict[str, Any] = {
    "task": "tests.support.toy",
    "data": {"source": "synthetic", "batch_size": 64},
    "pool": {"devices": ["fake:0"]},
}


def launch(run_dir: Path, peer: Peer, **changes: Any) -> Launch:
    """Of a run of the toy task that begins; `changes`: fields that are others."""
    told = Launch(
        peer=peer,
        config=parse_config(TREE, "test"),
        run_dir=run_dir,
        address_key=new_key(),
        coordinator=Peer(COORDINATOR),
        coordinator_pid=None,
        devices=("fake:0",),
        device_names=(),
        train_files=(),
        validation_files=(),
        schema=None,
        plan=None,
        segments={},
        bells={},
        step=0,
        start=Cursor(0, 0, 0, 0),
        checkpoint=None,
        snapshot=None,
        saved=-1,
        state_nbytes=0,
        num_chunks={},
        fingerprint={},
    )
    return replace(told, **changes)
