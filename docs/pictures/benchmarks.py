"""Draws what benchmarks have printed: `python docs/pictures/benchmarks.py FOLDER`, as their targets of make leave it.

Each file's last line is a benchmark's line of JSON; each becomes a picture beside this script. Needs matplotlib.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot
from matplotlib.axes import Axes

MIB = 1 << 20
OURS, OTHERS, LIMIT = "#2a4a6b", "#b0c4de", "#c0392b"
SHARES = {"compute": "#2a4a6b", "loader": "#f2c9c9", "reduce": "#e08214", "optimizer": "#c0392b", "weights": "#dddddd"}
DDP = "DistributedDataParallel"

Result = dict[str, Any]


def bars(axes: Axes, names: list[str], values: list[float], title: str, others: frozenset[int] = frozenset()) -> None:
    """Horizontal, the first on top; `others`: places of bars that are a peer's."""
    places = range(len(names))
    colors = [OTHERS if place in others else OURS for place in places]
    axes.barh(places, values, color=colors, height=0.6)
    for place, value in zip(places, values, strict=True):
        axes.text(value, place, f" {value:.3g}", va="center", fontsize=9)
    axes.set_xlim(0, 1.15 * max(values))
    label(axes, names, title)


def mark(axes: Axes, place: int, value: float) -> None:
    """A red line across the bar at `place`: a limit."""
    axes.plot([value, value], [place - 0.4, place + 0.4], color=LIMIT, linewidth=2)


def label(axes: Axes, names: list[str], title: str) -> None:
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.set_title(title, fontsize=10)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def peers(names: list[str], word: str) -> frozenset[int]:
    return frozenset(place for place, name in enumerate(names) if word in name)


def sparse_layer(result: Result, axes: Axes) -> None:
    rows = [row for row in result["results"] if row["required"]]
    names = [f"{row['outputs']} outputs" for row in rows]
    bars(axes, names, [row["ratio"] for row in rows], "sparse layer, forward and backward: times EmbeddingBag's speed")


def nnue_step(result: Result, axes: Axes) -> None:
    rows = [row for row in result["results"] if row["way"] == "fused"]
    names = [f"{row['network']}, {row['at_work']}" for row in rows]
    values = [row["positions_per_s"] / 1e3 for row in rows]
    bars(axes, names, values, "forward and backward, fused: thousand positions a second")


def training(result: Result, axes: Axes) -> None:
    rows = result["results"]
    names = [f"{row['network']}, {row['case']}" for row in rows]
    values = [row["positions_per_s"] / 1e3 for row in rows]
    bars(axes, names, values, "training: thousand positions a second", peers(names, DDP))


def loader(result: Result, axes: Axes) -> None:
    rows = [row for row in result["results"] if row["threads"] == 2]
    names = [f"{row['features']}, {row['level']}{', filters' if row['filters'] else ''}" for row in rows]
    bars(axes, names, [row["read_wall"] for row in rows], "loader, two threads: million positions read a second")


def pool_cost(result: Result, axes: Axes) -> None:
    """Where the time of a worker goes, by simulated time of a batch and number of workers."""
    rows = result["scaling"]
    places = range(len(rows))
    begin = [0.0] * len(rows)
    for name, color in SHARES.items():
        values = [row["ms"] * row[name] for row in rows]
        axes.barh(places, values, left=begin, color=color, height=0.6, label=name)
        begin = [a + b for a, b in zip(begin, values, strict=True)]
    for place, row in zip(places, rows, strict=True):
        mark(axes, place, row["compute_ms"])
    axes.legend(fontsize=8, frameon=False)
    names = [f"{row['compute_ms']:g} ms, {row['workers']} workers" for row in rows]
    label(axes, names, f"ms a step, 8 MB from each worker, {result['cores']} cores (red: perfect)")


def memory(result: Result, axes: Axes) -> None:
    """Of the largest network: what each process has of its own, and what of it is optimizer state."""
    largest = result["results"][-1]
    rows = largest["processes"]
    places = range(len(rows))
    rest = [row["rest"] / MIB for row in rows]
    axes.barh(places, rest, color=OURS, height=0.6, label="its own")
    state = [(row["own"] - row["rest"]) / MIB for row in rows]
    axes.barh(places, state, left=rest, color=OTHERS, height=0.6, label="Adam's state")
    for place, row in zip(places, rows, strict=True):
        axes.text(row["own"] / MIB, place, f" {row['own'] / MIB:.0f}", va="center", fontsize=9)
        mark(axes, place, largest["table"] / MIB)
    axes.legend(fontsize=8, frameon=False)
    label(axes, [row["process"] for row in rows], f"MiB besides the segments, l1 = {largest['l1']} (red: one table)")


def recovery(result: Result, axes: Axes) -> None:
    names = list(result["seconds"])
    values = [result["seconds"][name]["median"] for name in names]
    bars(axes, names, values, "seconds from SIGKILL to the next commit, median")


def learning(result: Result, axes: Axes) -> None:
    """The held-out loss of each seed over the positions seen; dots are the networks that play."""
    scale = result["scale"]
    for run, color in zip(result["runs"], (OURS, OTHERS, LIMIT), strict=False):
        thousands = [positions / 1e3 for positions in run["positions"]]
        axes.plot(thousands, run["losses"], color=color, label=f"seed {run['seed']}")
        for step in (scale["early"], scale["steps"]):
            place = step // scale["validate_every"]
            axes.plot(thousands[place], run["losses"][place], "o", color=color, markersize=4)
    axes.legend(fontsize=8, frameon=False)
    axes.set_xlabel("positions seen, thousands", fontsize=9)
    axes.set_title("held-out loss (dots: the networks that play)", fontsize=10)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


PICTURES: dict[str, Callable[[Result, Axes], None]] = {
    draw.__name__: draw for draw in (sparse_layer, nnue_step, training, loader, pool_cost, memory, recovery, learning)
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    arguments = parser.parse_args()
    for path in sorted(arguments.folder.glob("*.txt")):
        result: Result = json.loads(path.read_text(encoding="utf-8").splitlines()[-1])
        name = result["benchmark"]
        rows = max(6, len(result.get("results", result.get("scaling", ()))))
        figure, axes = pyplot.subplots(figsize=(7.5, 0.6 + 0.32 * rows))
        PICTURES[name](result, axes)
        figure.tight_layout()
        figure.savefig(Path(__file__).with_name(f"{name}.png"), dpi=110)
        pyplot.close(figure)


if __name__ == "__main__":
    main()
