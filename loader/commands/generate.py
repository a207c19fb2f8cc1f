"""`loader generate`: training data by self-play of a UCI engine."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from loader.errors import UsageError


def register(app: typer.Typer) -> None:
    app.command(name="generate")(generate_file)


def generate_file(
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FILE.binpack", help="File to write.", show_default=False)
    ],
    engine: Annotated[Path, typer.Option(metavar="PATH", help="A UCI engine.", show_default=False)],
    positions: Annotated[int, typer.Option(min=1, metavar="N", help="Entries to write.", show_default=False)],
    nodes: Annotated[int, typer.Option(min=1, metavar="N", help="Nodes of each search.")] = 150,
    seed: Annotated[int, typer.Option(metavar="N", help="Other seed, other openings.")] = 0,
    engines: Annotated[int, typer.Option(min=1, max=256, metavar="N", help="Processes that play.")] = 1,
    random_plies: Annotated[int, typer.Option(min=0, max=40, metavar="N", help="Random plies a game begins with.")] = 8,
    units_per_100cp: Annotated[
        int,
        typer.Option(
            min=1, max=10000, metavar="N", help="Score stored for 100 printed centipawns (Stockfish 15.1: 361)."
        ),
    ] = 361,
) -> int:
    """Make a binpack file by self-play of a UCI engine.

    Each game begins with random moves, which are not recorded; then every position is stored with the
    engine's move, its score in internal units, ply and the game's result (score and result from the side to
    move's point of view; a mate in n plies scores 32000 - n). Games end by the rules or when the scores have
    settled them. The engine gets one thread and forgets everything between games, so the same engine, nodes
    and seed give the same file, whatever --engines says. The file appears when it is complete; a file
    that exists is never replaced.
    """
    from loader.selfplay.game import GameSettings
    from loader.selfplay.generate import GenerateSettings, generate

    if os.path.lexists(output):
        raise UsageError(f"{output}: exists, and is never replaced; give another name or move it away")
    settings = GenerateSettings(
        engine, positions, seed, engines, units_per_100cp, GameSettings(nodes=nodes, random_plies=random_plies)
    )
    began = time.monotonic()
    with position_progress(positions) as progress:
        games = generate(settings, output, progress)
    seconds = time.monotonic() - began
    sys.stdout.write(f"{output}: {positions:,} positions of {games:,} games in {seconds:.0f} s\n")
    return 0


@contextmanager
def position_progress(positions: int) -> Iterator[Callable[[int], None]]:
    """A bar on a terminal, a line every tenth elsewhere; both on stderr."""
    if not sys.stderr.isatty():
        yield tenth_lines(positions)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("positions"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("positions", total=positions)
        yield lambda done: bar.update(task, completed=done)


def tenth_lines(positions: int) -> Callable[[int], None]:
    """Says so on stderr whenever another tenth is done."""
    said = 0

    def progress(done: int) -> None:
        nonlocal said
        tenth = 10 * done // positions
        if tenth > said:
            said = tenth
            sys.stderr.write(f"{done:,} of {positions:,} positions\n")

    return progress
