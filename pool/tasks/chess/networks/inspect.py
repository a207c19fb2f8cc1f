"""The command `pool inspect`, which shows what a network file holds. Never imports torch."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from loader.command_line.json_line import json_line
from loader.pictures import require_matplotlib
from pool.commands.arguments import Force, NetworkConfig, refuse_existing
from pool.errors import ConfigError
from pool.tasks.chess.network import NetworkSummary, TensorSummary
from pool.tasks.chess.networks.network_files import read_file
from pool.tasks.chess.positions import read_positions

_COLUMNS = ("tensor", "type", "shape", "smallest", "largest", "used", "clipped", "zeros")


def inspect(
    net: Annotated[Path, typer.Argument(metavar="NET", help="network file, as pool export writes it")],
    config: NetworkConfig = None,
    pictures: Annotated[
        Path | None,
        typer.Option(
            "--pictures",
            metavar="DIR",
            help="also draw the first layer as boards, a histogram of each tensor, and PSQT; needs matplotlib",
        ),
    ] = None,
    positions: Annotated[
        list[str] | None,
        typer.Option(
            "--positions",
            metavar="FILES",
            help="with --pictures: how often each activation is 0 in positions of these files (training data, or a FEN "
            "a line)",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="one JSON object, for programs")] = False,
    force: Force = False,
) -> None:
    """Show what a network file is, and how it uses the range of its integers.

    used: the largest magnitude by that of the range. clipped: numbers at an end of the range that training keeps them
    in. dead: outputs of a layer that are 0 whatever the position is.
    """
    if pictures is not None:
        require_matplotlib("--pictures")
    elif positions:
        raise ConfigError("inspect: --positions is for --pictures DIR")
    network = read_file(net, config)
    summary = network.summarize()
    drawn: list[Path] = []
    if pictures is not None:
        from pool.tasks.chess.networks.pictures import draw  # late: matplotlib

        chosen = read_positions(positions, network.inputs, "--positions") if positions else []
        drawn = draw(network, summary, chosen, pictures, lambda paths: refuse_existing(paths, force))
    if as_json:
        pictures_key = {"pictures": [str(path) for path in drawn]} if drawn else {}
        sys.stdout.write(json_line({"file": str(net), **asdict(summary), **pictures_key}))
    else:
        written = ["", *(f"{path}: written" for path in drawn)] if drawn else []
        sys.stdout.write("".join(f"{line}\n" for line in (*_format_lines(summary), *written)))


def _format_lines(summary: NetworkSummary) -> list[str]:
    """Formats the summary of a network as lines, with a table of its tensors."""
    rows = [_COLUMNS, *(_format_row(tensor) for tensor in summary.tensors)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(_COLUMNS))]
    table = [
        "  ".join(
            cell.ljust(width) if i < 3 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
    about = [
        f"{key}: {value:,}" if isinstance(value, int) else f"{key}: {value}" for key, value in summary.about.items()
    ]
    dead = [f"dead outputs of {layer}: {count:,} of {total:,}" for layer, (count, total) in summary.dead.items()]
    return [*about, "", *(line.rstrip() for line in table), "", *dead]


def _format_row(tensor: TensorSummary) -> tuple[str, ...]:
    return (
        tensor.name,
        tensor.kind,
        " x ".join(f"{extent:,}" for extent in tensor.shape),
        _format_number(tensor.smallest),
        _format_number(tensor.largest),
        f"{tensor.used:.2%}" if tensor.limits else "-",
        f"{tensor.clipped:,}" if tensor.limits else "-",
        f"{tensor.zeros:.2%}",
    )


def _format_number(value: int | float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:.6g}"
