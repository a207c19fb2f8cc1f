"""Draws the curves of a run, as TensorBoard shows them: `python docs/pictures/curves.py RUN_FOLDER PICTURE.png`.

Needs matplotlib.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot

SHARES = {"compute": "#2a4a6b", "loader": "#f2c9c9", "reduce": "#e08214", "optimizer": "#c0392b", "weights": "#dddddd"}


def draw(records: list[dict[str, Any]], picture: Path) -> None:
    steps = [record for record in records if "loss" in record]
    validations = [record for record in records if "validation_loss" in record]
    figure, (losses, speed, times) = pyplot.subplots(1, 3, figsize=(11, 2.8))
    numbers = [record["step"] for record in steps]
    losses.plot(numbers, [record["loss"] for record in steps], color="#b0c4de", label="loss/train")
    points = [record["validation_loss"] for record in validations]
    losses.plot([record["step"] for record in validations], points, "o-", color="#2a4a6b", label="loss/validation")
    losses.legend(frameon=False, fontsize=8)
    losses.set_title("loss", fontsize=10)
    speed.plot(numbers, [record["samples_per_second"] / 1e3 for record in steps], color="#2a4a6b")
    speed.set_title("speed/samples_per_second, thousands", fontsize=10)
    speed.set_ylim(bottom=0)
    shares = [[record[name] for record in steps] for name in SHARES]
    times.stackplot(numbers, shares, labels=list(SHARES), colors=list(SHARES.values()))
    times.legend(framealpha=0.9, fontsize=8, loc="lower right")
    times.set_title("time/...", fontsize=10)
    for axes in (losses, speed, times):
        axes.set_xlabel("step")
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
    figure.tight_layout()
    figure.savefig(picture, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("picture", type=Path)
    arguments = parser.parse_args()
    lines = (arguments.run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    draw([json.loads(line) for line in lines], arguments.picture)


if __name__ == "__main__":
    main()
