"""The command `pool find-lr`."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from loader.command_line.json_line import json_line
from pool.commands.arguments import Force, Overrides, refuse_existing
from pool.errors import PoolError

if TYPE_CHECKING:
    from pool.analysis.range_test import RangeTest
    from pool.config.tree import Config

# late imports: every command starts without what it does not use


def register(app: typer.Typer) -> None:
    app.command(name="find-lr")(find_lr)


def find_lr(
    config: Annotated[Path, typer.Argument(metavar="CONFIG.toml", help="settings; its schedule is left out")],
    overrides: Overrides = None,
    steps: Annotated[int, typer.Option("--steps", min=10, max=1_000_000, metavar="N", help="steps of the test")] = 100,
    low: Annotated[float, typer.Option("--from", metavar="RATE", help="learning rate of the first step")] = 1e-6,
    high: Annotated[float, typer.Option("--to", metavar="RATE", help="learning rate of the last step")] = 1.0,
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE", help="draw the losses, .png or .svg; needs matplotlib")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="one JSON object: suggested, lowest, and rates, losses, smoothed by step")
    ] = False,
    force: Force = False,
) -> None:
    """Find a learning rate: a short run in a temporary folder, whose rate rises from step to step.

    Suggested is a tenth of the rate at which the smoothed loss was lowest. It is a place to begin, not an answer: it
    depends on batch size, optimizer and data. The run may diverge at the end, which is what it is for.
    """
    from pool.analysis.plot import check_plot, plot_rates
    from pool.analysis.range_test import range_test_changes
    from pool.config.load import load_config

    if plot is not None:
        check_plot(plot)
        refuse_existing([plot], force)
    folder = Path(tempfile.mkdtemp(prefix="find-lr-"))
    try:
        changes = range_test_changes(steps, low, high, str(folder / "run"))
        test = _run_test(load_config(config, [*(overrides or ()), *changes]))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if as_json:
        sys.stdout.write(json_line(asdict(test)))
    else:
        from pool.analysis.range_test import draw_chart

        sys.stdout.write(draw_chart(test.rates, test.smoothed, test.suggested))
        sys.stdout.write(
            f"lowest smoothed loss at {test.lowest:.2e}; suggested: --set optimizer.args.lr={test.suggested:.2g}\n"
        )
    if plot is not None:
        plot_rates(test, plot)


def _run_test(config: Config) -> RangeTest:
    """Trains the short run, and returns the result of the range test. A run that diverges after enough steps is no
    failure. Raises PoolError, or typer.Exit if the run fails otherwise."""
    from pool.analysis.range_test import MIN_STEPS, evaluate_rates
    from pool.analysis.records import read_run
    from pool.supervisor.train import train

    sys.stderr.write(f"find-lr: {config.train.steps} steps\n")
    failure: PoolError | None = None
    code = 0
    with Path(os.devnull).open("w", encoding="utf-8") as null, contextlib.redirect_stdout(null):
        try:
            code = train(config, resume=False)
        except PoolError as error:
            failure = error
    if code != 0:
        raise typer.Exit(code)
    records = read_run(config.run_dir).steps if (config.run_dir / "config.json").exists() else []
    has_diverged = failure is not None and "not finite" in str(failure) and len(records) >= MIN_STEPS
    if failure is not None and not has_diverged:
        raise failure
    rates = [record["learning_rate"] for record in records]
    losses = [record["loss"] for record in records]
    return evaluate_rates(rates, losses)
