"""Draws steps of a trace (`pool train --trace FILE`): `python docs/pictures/trace.py FILE PICTURE.png [--steps 20 23]`.

Needs matplotlib.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot

COLORS = {
    "forward": "#4c78a8",
    "backward": "#2a4a6b",
    "load": "#b0c4de",
    "prepare": "#8fbc8f",
    "waiting for weights": "#eeeeee",
    "waiting for batches": "#f2c9c9",
    "reduce": "#e08214",
    "optimize": "#c0392b",
    "commit": "#7b241c",
    "is it finite?": "#9aa5b1",
}


def spans(events: list[dict[str, Any]], first: int, last: int) -> tuple[dict[str, list[dict[str, Any]]], float]:
    """Bars by process within the steps' time, and where that time begins (microseconds)."""
    names = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
    commits = {event["args"]["step"]: event for event in events if event["name"] == "commit"}
    begin, end = commits[first - 1]["ts"] + commits[first - 1]["dur"], commits[last]["ts"] + commits[last]["dur"]
    rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for event in events:
        if event["ph"] == "X" and event["name"] in COLORS and event["ts"] + event["dur"] > begin and event["ts"] < end:
            rows[names[event["pid"]]].append(event)
    return rows, begin


def draw(events: list[dict[str, Any]], first: int, last: int, picture: Path) -> None:
    rows, begin = spans(events, first, last)
    order = sorted(rows, reverse=True)
    figure, axes = pyplot.subplots(figsize=(11, 0.9 + 0.55 * len(order)))
    for height, name in enumerate(order):
        for event in rows[name]:
            start = (event["ts"] - begin) / 1000
            axes.barh(height, event["dur"] / 1000, left=start, color=COLORS[event["name"]], height=0.7)
    axes.set_yticks(range(len(order)), order)
    axes.set_xlabel("milliseconds")
    axes.set_xlim(left=0)
    handles = [pyplot.Rectangle((0, 0), 1, 1, color=color) for color in COLORS.values()]
    axes.legend(handles, COLORS.keys(), ncols=5, loc="upper center", bbox_to_anchor=(0.5, 1.35), frameon=False)
    figure.savefig(picture, dpi=110, bbox_inches="tight")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trace", type=Path)
    parser.add_argument("picture", type=Path)
    parser.add_argument("--steps", type=int, nargs=2, default=(20, 22), metavar=("FIRST", "LAST"))
    arguments = parser.parse_args()
    events = json.loads(arguments.trace.read_text(encoding="utf-8"))["traceEvents"]
    draw(events, *arguments.steps, arguments.picture)


if __name__ == "__main__":
    main()
