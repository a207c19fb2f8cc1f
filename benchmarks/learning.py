"""What networks learn from one small file: the loss on its last tenth after training on the rest, for several seeds.

No claim about the order of the networks: on so few positions small ones look better than they are. Prints a table as
the documentation has it, and one line of JSON.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import sparsepool
from benchmarks.rotated import REAL, ROOT
from loader.chess.entry import Entry
from loader.formats.binpack.file import Writer, entries

HELD_OUT = 0.1


def split(source: Path, folder: Path) -> tuple[Path, Path, int, int]:
    """Two files, each of whole games, and how many entries each has."""
    found = list(entries(source))
    border = next(i for i in range(int((1 - HELD_OUT) * len(found)), len(found)) if _begins_a_game(found, i))
    parts = found[:border], found[border:]
    paths = folder / "train.binpack", folder / "validation.binpack"
    for path, part in zip(paths, parts, strict=True):
        with Writer(path) as writer:
            for entry in part:
                writer.add(entry)
    return *paths, len(parts[0]), len(parts[1])


def _begins_a_game(found: Sequence[Entry], i: int) -> bool:
    return found[i].ply < found[i - 1].ply


def held_out_losses(config: Path, changes: dict[str, Any], seeds: int, folder: Path) -> list[float]:
    losses = []
    for seed in range(seeds):
        run = {"run.dir": str(folder / f"{config.stem}-{seed}"), "run.seed": seed}
        result = sparsepool.train(config, {**changes, **run}, quiet=True)
        losses.append([line["validation_loss"] for line in result.metrics() if "validation_loss" in line][-1])
    return losses


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("configs", nargs="+", help="names in configs/")
    parser.add_argument("--data", type=Path, default=REAL, help="a binpack file")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="VALUE is JSON")
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    pairs = (change.partition("=") for change in arguments.set)
    changes = {key: json.loads(value) for key, _, value in pairs}
    rows = {}
    with tempfile.TemporaryDirectory() as folder:
        train, validation, trained, held_out = split(arguments.data, Path(folder))
        changes |= {"data.train": [str(train)], "data.validation": [str(validation)]}
        print(f"{arguments.data.name}: {trained:,} positions to learn from, {held_out:,} held out")
        print("| config | held-out loss of each seed | mean |\n|---|---|---|")
        for name in arguments.configs:
            rows[name] = held_out_losses(ROOT / f"configs/{name}.toml", changes, arguments.seeds, Path(folder))
            losses = ", ".join(f"{loss:.4f}" for loss in rows[name])
            print(f"| `{name}` | {losses} | {statistics.mean(rows[name]):.4f} |", flush=True)
    print(json.dumps({"benchmark": "learning", "changes": arguments.set, "losses": rows}))


if __name__ == "__main__":
    main()
