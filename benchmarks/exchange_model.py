"""What the exchange of a step costs, per scheme, as the model in pool/cost_model/traffic.py has it: no measurement.

For two networks, five kinds of cards and 1, 2, 4 and 8 of them: milliseconds of the busiest link / the host's memory /
a card's own memory, for each batch of a card: with k batches in a group a step's cost is divided by k. A step takes at
least the largest, and the computation. Speeds are three quarters or more of what is printed on the box; they are
assumptions. Prints a table, as Markdown with --markdown, and one line of JSON.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pool.cost_model.traffic import SCHEMES, Box, Load, Milliseconds, touched_by

TOUCHED = 0.6  # of the rows, by a batch of 16,384 positions
WEIGHTS = {"l1 1024": 92.3e6, "l1 3072": 276.8e6}  # bytes: the table of HalfKAv2_hm
EXCHANGES = {  # by name: the scheme, and the share of a float32 that a gradient's number takes
    "host, float32": ("host", 1.0),
    "host, bfloat16": ("host", 0.5),
    "device, float32": ("device", 1.0),
    "device, bfloat16": ("device", 0.5),
    "rows shared out": ("rows shared out", 1.0),
}
CARDS = (1, 2, 4, 8)
GROUPS = (1, 4)


@dataclass(frozen=True)
class Machine:
    """Cards of a kind in the box that they are usually found in."""

    name: str
    box: Box


MACHINES = (
    Machine("RTX 3060, PCIe 4 x16, two channels of DDR4", Box(link=25, host=40, memory=330)),
    Machine("RTX 4090, PCIe 4 x16, two channels of DDR5", Box(link=25, host=65, memory=900)),
    Machine("RTX 5090, PCIe 5 x16, two channels of DDR5", Box(link=50, host=65, memory=1600)),
    Machine("A100, PCIe 4 x16, eight channels of DDR4", Box(link=25, host=150, memory=1700)),
    Machine("H100, PCIe 5 x16, NVLink, eight channels of DDR5", Box(link=50, host=250, memory=3000, peer=450)),
)


def per_batch(name: str, weights: float, cards: int, k: int, box: Box) -> Milliseconds:
    """`name`: of `EXCHANGES`; `k`: batches of a group."""
    scheme, narrowed = EXCHANGES[name]
    load = Load(weights, weights * narrowed * touched_by(TOUCHED, k))
    found = SCHEMES[scheme](load, cards, box).milliseconds(box)
    return Milliseconds(found.link / k, found.host / k, found.memory / k)


def in_short(found: Milliseconds) -> str:
    """`6/12/0`; below one with a digit."""
    return "/".join(
        "0" if value < 0.05 else f"{value:.1f}" if value < 0.95 else f"{value:.0f}"
        for value in (found.link, found.host, found.memory)
    )


def rows(machines: Sequence[Machine]) -> Iterator[list[str]]:
    for machine in machines:
        for name in EXCHANGES:
            for k in GROUPS:
                cells = [
                    in_short(per_batch(name, weights, cards, k, machine.box))
                    for weights in WEIGHTS.values()
                    for cards in CARDS
                ]
                yield [machine.name, name, str(k), *cells]


def header() -> list[str]:
    return ["machine", "scheme", "k", *(f"{name}, {cards}" for name in WEIGHTS for cards in CARDS)]


def markdown(machines: Sequence[Machine] = MACHINES) -> str:
    """One table a machine."""
    blocks = []
    for machine in machines:
        names = header()[1:]
        lines = [machine.name, "", f"| {' | '.join(names)} |", f"|{'---|' * len(names)}"]
        lines += [f"| {' | '.join(row[1:])} |" for row in rows([machine])]
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--markdown", action="store_true", help="as docs/explanation/gpu.md has it")
    arguments = parser.parse_args()
    print(markdown())
    if not arguments.markdown:
        found = [dict(zip(header(), row, strict=True)) for row in rows(MACHINES)]
        print(json.dumps({"benchmark": "exchange_model", "rows": found}))


if __name__ == "__main__":
    main()
