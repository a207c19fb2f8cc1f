"""`pool predict`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from pool.commands.arguments import Averaged, Checkpoint, Member, TrustedTask


def register(app: typer.Typer) -> None:
    app.command(name="predict")(predict)


def predict(
    checkpoint: Checkpoint,
    data: Annotated[
        list[str], typer.Option("--data", metavar="FILES", help="data to ask about; * and ? match; several in order")
    ],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FILE.tsv", help="new file to write")],
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="change a key of [data]; may be given several times"),
    ] = None,
    member: Member = None,
    averaged: Averaged = False,
    task: TrustedTask = None,
) -> None:
    """Write what a checkpoint's network says of each sample: a line of numbers, separated by tabs, in the data's order.

    The data is read with the settings of the run, filters included, and without shuffling. The file is written as a
    whole or not at all. Of an ensemble each number is the mean of its members'. The network is asked about
    data.batch_size samples at once; the last digits may depend on that number, since libraries add up matrix products
    in an order that depends on their size.
    """
    from loader.commands.terminal import sample_count
    from pool.config.changes import Change
    from pool.runs.predict import predict_file
    from pool.trained.choosing import parse_member

    parsed = [Change.parse(text) for text in changes or ()]
    with sample_count("predict") as told:
        asked, samples = predict_file(
            checkpoint, data, output, task, parsed, parse_member(member), told, averaged=averaged
        )
    sys.stdout.write(f"{output}: {samples:,} samples, from {asked}\n")
