"""The command `pool demo`, which runs the commands of a first training on the sample that comes with the package."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from pool.commands.arguments import Overrides
from pool.errors import ConfigError

# late imports: every command starts without what it does not use


def register(app: typer.Typer) -> None:
    app.command(name="demo")(demo)


def demo(
    context: typer.Context,
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="new folder for the run and the network")] = Path(
        "runs/demo"
    ),
    overrides: Overrides = None,
) -> None:
    """Train the bundled sample, export the network and evaluate some positions: 45 s on two cores.

    Each step is a command of its own, which is shown before it runs; they need 3 GB of memory and 1 GB of disk. FOLDER
    also gets the config, demo.toml. A demo that was stopped goes on with the command that its last line shows.
    """
    from pool.config import bundle

    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        raise ConfigError(f"{folder}: is there already; remove it, or name a new one: pool demo FOLDER") from None
    config, net = folder / "demo.toml", folder / "net.nnue"
    bundle.copy_config("demo", config)
    changes: list[str] = []
    for change in (f"run.dir={folder}", *(overrides or ())):
        changes += ["--set", change]
    steps = (
        ("trains Stockfish 15.1's network on 250,000 positions, 150 steps", ["train", str(config), *changes]),
        ("writes the network as the engine reads it", ["export", str(folder / "checkpoints/last"), "-o", str(net)]),
        (
            "evaluates some positions as the engine does",
            ["eval", str(net), "--epd", str(bundle.configs_folder() / "sample/positions.epd")],
        ),
    )
    for number, (about, arguments) in enumerate(steps, 1):
        sys.stdout.write(f"demo {number}/{len(steps)}: {about}\n{shlex.join(['pool', *arguments])}\n")
        sys.stdout.flush()
        code = context.find_root().command.main(arguments, prog_name="pool", standalone_mode=False)
        if code:
            raise typer.Exit(code)
