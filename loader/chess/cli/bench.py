"""`loader bench`: measures how fast batches are made from files of positions."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from loader.cli.options import Json, Seed
from loader.command_line.json_line import json_line
from loader.errors import DataError, UsageError

if TYPE_CHECKING:
    from loader.chess.cli.throughput import BenchResult
    from loader.stream.config import DataConfig

# late imports: a command loads what it uses, so that --help and mistakes are answered at once

Files = Annotated[list[Path], typer.Argument(metavar="FILE", help="Data files.", show_default=False)]


def register(app: typer.Typer) -> None:
    app.command(name="bench")(bench_files)


def bench_files(
    files: Files,
    as_json: Json = False,
    threads: Annotated[int, typer.Option(min=1, max=256, metavar="N", help="Threads that decode and build.")] = 2,
    seconds: Annotated[float, typer.Option(min=0, max=86400, metavar="S", help="How long to run.")] = 5.0,
    batch_size: Annotated[int, typer.Option(min=1, max=1 << 20, metavar="N", help="Positions of a batch.")] = 16384,
    features: Annotated[str, typer.Option(metavar="NAME", help="Feature set.")] = "HalfKAv2_hm",
    window_chunks: Annotated[int, typer.Option(min=1, max=1 << 20, metavar="N", help="Chunks shuffled together.")] = 16,
    shuffle: Annotated[bool, typer.Option(help="Shuffle chunks and entries.")] = True,
    seed: Seed = 0,
    skip_in_check: Annotated[bool, typer.Option("--skip-in-check", help="Filter: positions in check.")] = False,
    skip_captures: Annotated[bool, typer.Option("--skip-captures", help="Filter: captures.")] = False,
    skip_promotions: Annotated[bool, typer.Option("--skip-promotions", help="Filter: promotions.")] = False,
    skip_ply_up_to: Annotated[int, typer.Option(min=-1, max=65535, metavar="N", help="Filter: plies 0 to N.")] = -1,
    random_skip: Annotated[float, typer.Option(min=0, max=1e6, metavar="R", help="Filter: R of every R + 1.")] = 0.0,
    win_draw_loss: Annotated[bool, typer.Option("--win-draw-loss", help="Filter: unlikely results.")] = False,
    piece_count: Annotated[bool, typer.Option("--piece-count", help="Filter: common piece counts.")] = False,
) -> None:
    """Measure how many positions a second are read, kept by the filters, and put into batches.

    The batches are made as for training and thrown away. Entries without a score are always left out.
    """
    from loader.chess.cli.throughput import bench
    from loader.stream.sources import data_config

    filters = {
        "skip_in_check": skip_in_check,
        "skip_captures": skip_captures,
        "skip_promotions": skip_promotions,
        "skip_ply_up_to": skip_ply_up_to,
        "random_skip": random_skip,
        "win_draw_loss": win_draw_loss,
        "piece_count": piece_count,
    }
    config = data_config(
        batch_size=batch_size,
        threads=threads,
        shuffle=shuffle,
        window_chunks=window_chunks,
        chess={"features": features, "filters": filters},
    )
    check_features(config)
    try:
        result = bench(config, list(map(Path, files)), seed, seconds)
    except DataError:
        raise
    except ValueError as error:  # a filter that the format can't serve
        raise UsageError(str(error)) from None
    report(result, as_json)


def check_features(config: DataConfig) -> None:
    """Checks that the feature set of the settings exists. Raises BadParameter for --features."""
    from loader.stream.data import Data

    try:
        Data(config).schema()
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--features") from None


def report(result: BenchResult, as_json: bool) -> None:
    """Prints the measured rates as a table or as JSON."""
    if as_json:
        sys.stdout.write(json_line(asdict(result)))
        return
    from loader.cli.terminal import print_table

    rows = [
        ("read", f"{result.read:,.0f} positions/s"),
        ("kept", f"{result.kept:,.0f} positions/s"),
        ("batched", f"{result.batched:,.0f} positions/s"),
        ("written", f"{result.bytes_per_position:.1f} bytes a position"),
        ("measured", f"{result.batches:,} batches of {result.batch_size:,} in {result.seconds:.1f} s"),
    ]
    print_table(f"{result.features}, {result.threads} threads", rows)
