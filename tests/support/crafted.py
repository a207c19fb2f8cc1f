"""Checkpoints with right sums and wrong content, made of a genuine one: what a stranger may hand over."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pool.checkpoint.state import FORMAT, STATE, WEIGHTS

BLOCK = 1 << 20
Tree = dict[str, Any]


def read(checkpoint: Path) -> Tree:
    """Returns the content of state.json without format and sum."""
    tree: Tree = json.loads((checkpoint / STATE).read_text())
    del tree["format"], tree["sha256"]
    return tree


def seal(checkpoint: Path, text: str, format: int = FORMAT) -> None:
    """Writes the text of an object as state.json, with the sum that it needs."""
    rest = text.lstrip().removeprefix("{").encode("utf-8", "surrogatepass")
    first = f'{{"format": {format}, "sha256": "{hashlib.sha256(rest).hexdigest()}",\n'
    (checkpoint / STATE).write_bytes(first.encode() + rest)


def reseal(checkpoint: Path, change: Callable[[Tree], object]) -> None:
    """Changes state.json, and its sum."""
    tree = read(checkpoint)
    change(tree)
    seal(checkpoint, json.dumps(tree))


def reseal_header(checkpoint: Path, change: Callable[[Tree], object], name: str = WEIGHTS) -> None:
    """Changes the header of a file of tensors, and all sums."""
    content = (checkpoint / name).read_bytes()
    begin = 8 + int.from_bytes(content[:8], "little")
    header: Tree = json.loads(content[8:begin])
    change(header)
    reseal_tensors(checkpoint, json.dumps(header).encode(), content[begin:], name)


def reseal_tensors(checkpoint: Path, header: bytes, data: bytes, name: str = WEIGHTS) -> None:
    """Writes a file of tensors, and sums that agree with it as far as the header can be understood."""
    head = len(header).to_bytes(8, "little") + header
    (checkpoint / name).write_bytes(head + data)

    def change(tree: Tree) -> None:
        sums = tree["files"][name]
        sums |= {"nbytes": len(head + data), "header_nbytes": len(head), "header": hashlib.sha256(head).hexdigest()}
        sums["tensors"] = _sums(header, data) or sums["tensors"]

    reseal(checkpoint, change)


def _sums(header: bytes, data: bytes) -> dict[str, list[str]] | None:
    try:
        places = {key: entry["data_offsets"] for key, entry in json.loads(header).items()}
        return {
            key: [
                hashlib.sha256(data[at : min(at + BLOCK, end)]).hexdigest()
                for at in range(max(0, begin), min(end, len(data)), BLOCK)
            ]
            for key, (begin, end) in places.items()
        }
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, MemoryError):
        return None
