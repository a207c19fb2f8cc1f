"""The command `pool predict`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from pool.commands.arguments import Averaged, Checkpoint, Member, TrustedTask

# late imports: every command starts without what it does not use


def register(app: typer.Typer) -> None:
    app.command(name="predict")(predict)


def predict(
    checkpoint: Checkpoint,
    data: Annotated[
        list[str], typer.Option("--data", metavar="FILES", help="data to ask about; * and ? match; several in order")
    ],
    output: Annotated[
        Path,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE.tsv",
            help="new file to write: .tsv or .txt (tabs), .csv (commas), .parquet; - is standard output",
        ),
    ],
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="change a key of [data]; may be given several times"),
    ] = None,
    ids: Annotated[
        str | None,
        typer.Option(
            "--id", metavar="COLUMN", help="begin each line with that column of the data, by its name (csv, parquet)"
        ),
    ] = None,
    header: Annotated[
        bool, typer.Option("--header", help="begin text with a line of names: the --id column, prediction")
    ] = False,
    member: Member = None,
    averaged: Averaged = False,
    task: TrustedTask = None,
) -> None:
    """Write a network's predictions for each sample, in the data's order: a line of numbers, or a row of a
    Parquet file.

    The data is read with the settings of the run, filters included, and without shuffling; rows need no labels. The
    file is written as a whole or not at all. Of an ensemble each number is the mean of its members'. The network is
    asked about data.batch_size samples at once; the last digits may depend on that number, since libraries add up
    matrix products in an order that depends on their size. A last line for each field says how many of its features in
    the data were never trained, if they are more than one in a hundred.
    """
    from loader.cli.terminal import show_sample_count
    from loader.files.pipes import is_stream
    from pool.analysis.predict import Predictor, predict_file
    from pool.config.changes import Change
    from pool.export.member import Choice, parse_member

    parsed = [Change.parse(text) for text in changes or ()]
    predictor = Predictor.open(checkpoint, task, "predict", Choice(parse_member(member), averaged=averaged))
    with show_sample_count("predict") as on_progress:
        summary = predict_file(predictor, data, output, parsed, on_progress, ids=ids, header=header)
    messages = sys.stderr if is_stream(output) else sys.stdout
    messages.write(f"{output}: {summary.samples:,} samples, from {predictor}\n")
    for share in summary.untrained:
        if not share.is_small:
            messages.write(f"{share.describe('the data were never trained')}\n")
