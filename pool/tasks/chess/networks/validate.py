"""The command `pool validate`, which compares networks on the same data."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from loader.command_line.json_line import json_line
from pool.commands.arguments import NetworkConfig, TrustedTask

# late imports: torch


def validate(
    nets: Annotated[
        list[Path],
        typer.Argument(metavar="NET", help="network files, and folders of checkpoints or runs (their newest)"),
    ],
    data: Annotated[
        list[str],
        typer.Option("--data", metavar="FILES", help="positions with scores; * and ? match; several in order"),
    ],
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="change a key of [data] or [loss]; may be given several times"),
    ] = None,
    config: NetworkConfig = None,
    task: TrustedTask = None,
    as_json: Annotated[bool, typer.Option("--json", help="one JSON object a network, the lowest loss first")] = False,
) -> None:
    """Compare networks on the same positions by one loss: files of engines, checkpoints, runs.

    [data] and [loss] are those of --config; without, of the first checkpoint among the networks, or else the defaults
    of the first one's task. Lambda is that of the last step. Differences are those of the evaluations from the first
    network's, in units of the score. A file is evaluated as its engine does, in integers; a checkpoint in floats, of
    an ensemble the mean.
    """
    from loader.cli.terminal import show_sample_count
    from pool.commands.tables import print_table
    from pool.config.changes import Change
    from pool.metrics.digits import format_value
    from pool.tasks.chess.networks.comparison import compare

    with show_sample_count("validate") as on_progress:
        comparison = compare(nets, data, [Change.parse(text) for text in changes or ()], config, task, on_progress)
    if as_json:
        for net in comparison.nets:
            sys.stdout.write(json_line({**asdict(net), "samples": comparison.samples, "lambda": comparison.weight}))
        return
    rows = [
        [net.net, format_value(net.loss), f"{net.mean_difference:.3f}", f"{net.largest_difference:.3f}"]
        for net in comparison.nets
    ]
    print_table([["net", "loss", "mean difference", "largest difference"], *rows], left="net")
    sys.stdout.write(f"{comparison.samples:,} positions, lambda {comparison.weight:g}; differences from {nets[0]}\n")
