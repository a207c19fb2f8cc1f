"""The command `pool sweep`."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import Annotated

import typer

from loader.command_line.json_line import json_line
from pool.commands.arguments import AllowDifferentNumerics, Overrides, Resume, TraceFile

# late imports: every command starts without what it does not use


def register(app: typer.Typer) -> None:
    app.command(name="sweep")(sweep)


def sweep(
    config: Annotated[Path, typer.Argument(metavar="CONFIG.toml", help="settings that all members have in common")],
    vary: Annotated[
        list[str] | None,
        typer.Option(
            "--vary",
            metavar="KEY=VALUE,VALUE,...",
            help="values to try, of a key of optimizer, schedule, loss or model; of several keys every combination",
        ),
    ] = None,
    overrides: Overrides = None,
    seeds: Annotated[
        int,
        typer.Option(
            "--seeds", min=1, metavar="N", help="members of each combination, or of the config as it is: N model seeds"
        ),
    ] = 1,
    resume: Resume = False,
    allow_different_numerics: AllowDifferentNumerics = False,
    trace: TraceFile = None,
    check: Annotated[bool, typer.Option("--check", help="show what the run would be and take; start nothing")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="one JSON object a member, the best first; the run's lines go to stderr")
    ] = False,
) -> None:
    """Train a network for each combination of some settings, all in one run, and show which is the best.

    The networks are members of an ensemble: they share one stream of batches, and each trains as it would alone. The
    table has the numbers of each one's best validation by train.best_metric, the best first; without validations the
    training loss. Settings of the data and of the run can't differ, nor those that change a tensor's shape: one layout
    of memory holds all members. Train such runs one by one, and compare them by pool runs. Example: pool sweep
    configs/clicks.toml --vary optimizer.args.lr=1e-3,3e-3,1e-2 --seeds 3
    """
    from pool.analysis.sweep import SEED, Variation, build_sweep_config, read_result, result_table, summarize_members
    from pool.commands.tables import print_table
    from pool.supervisor.prepare import preparation
    from pool.supervisor.summary import sweep_command
    from pool.supervisor.train import train

    vary = vary or []
    variations = [Variation.parse(text) for text in vary]
    settings = build_sweep_config(config, overrides or (), variations, seeds, trace=trace)
    if check:
        preparation.check_run(settings, print)
        return
    options: list[str] = []
    for text in vary:
        options += ["--vary", text]
    if seeds != 1:
        options += ["--seeds", str(seeds)]

    def again(run_dir: str) -> str:
        """Returns the command that continues the run. `run_dir`: its folder, which may have been moved."""
        changes = list(overrides or ())
        if run_dir not in (settings.run.dir, str(settings.run_dir)):
            changes.append(f"run.dir={run_dir}")
        return sweep_command(config, options, changes)

    with contextlib.redirect_stdout(sys.stderr) if as_json else contextlib.nullcontext():
        code = train(settings, resume=resume, allow_different_numerics=allow_different_numerics, again=again)
    if code != 0:
        raise typer.Exit(code)
    result = read_result(settings.run_dir)
    varied = [variation.key for variation in variations]
    if seeds != 1:
        varied.append(SEED)
    if as_json:
        for summary in summarize_members(result, varied):
            sys.stdout.write(json_line(summary))
    else:
        print_table(result_table(result, varied), left="member")
        sys.stdout.write(f"{result.note}\n")
