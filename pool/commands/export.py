"""The command `pool export`."""

from __future__ import annotations

import contextlib
import sys
import tempfile
from pathlib import Path
from typing import Annotated, Literal

import typer

from pool.commands.arguments import Averaged, Checkpoint, Force, Member, TrustedTask, refuse_existing
from pool.errors import ConfigError

# late imports: every command starts without what it does not use


def register(app: typer.Typer) -> None:
    app.command(name="export")(export)


def export(
    checkpoint: Checkpoint,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="file to write; - is standard output")],
    description: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT",
            help="text that the file carries; otherwise that of the file which pool convert made the checkpoint of, "
            'or "Trained with sparsepool."',
        ),
    ] = None,
    header: Annotated[
        Literal["c", "rust", "none"],
        typer.Option(
            metavar="LANGUAGE",
            help="c or rust: also write a .h or .rs beside FILE with its shapes and scales, for an engine to include",
        ),
    ] = "none",
    onnx: Annotated[
        bool,
        typer.Option(
            "--onnx",
            help="write what pool predict says as an ONNX model, FILE.onnx, of any task whose model torch can export",
        ),
    ] = False,
    permute: Annotated[
        list[str] | None,
        typer.Option(
            "--permute",
            metavar="FILES",
            help="order the pairs of the first layer so that blocks of 4 are 0 more often, which engines skip, by "
            "positions of these files (training data, or a FEN a line); the function stays the same",
        ),
    ] = None,
    member: Member = None,
    average: Annotated[
        bool,
        typer.Option(
            "--average",
            help="of an ensemble: the average of all members' weights, if they began from the same weights",
        ),
    ] = False,
    averaged: Averaged = False,
    task: TrustedTask = None,
    force: Force = False,
) -> None:
    """Write the network of a checkpoint as a file for its engine, or for ONNX.

    stockfish: a .nnue file that the engine loads. perspective: a file of numbers in bullet's format, with its
    description FILE.json beside it; if it is named *raw.bin or *weights.bin, the floats.

    What is written is read back and evaluated before the file gets its name.

    Of an ensemble a file holds one network: --member or --average says which.
    """
    from loader.files.pipes import open_output_pipe
    from pool.export.export import export_checkpoint, header_path
    from pool.export.member import Choice, parse_member

    if average and member is not None:
        raise ConfigError("--average: is of all members; leave out --member")
    if onnx and header != "none":
        raise ConfigError("--header: is of the task's own format; leave out --onnx")
    choice = Choice(parse_member(member), average=average, averaged=averaged)
    language = None if header == "none" else header
    pipe = open_output_pipe(output)
    if pipe is not None and (language is not None or pipe.isatty()):
        problem = "is a terminal" if pipe.isatty() else "--header writes a file beside FILE"
        raise ConfigError(f"-o {output}: {problem}: name a file, or redirect the output")
    refuse_existing([output] if language is None else [output, header_path(output, language)], force)
    messages = sys.stdout if pipe is None else sys.stderr
    with contextlib.nullcontext() if pipe is None else tempfile.TemporaryDirectory(prefix="pool-export-") as folder:
        file = output if folder is None else Path(folder) / "network"
        exported = export_checkpoint(
            checkpoint,
            file,
            description,
            task,
            choice,
            header=language,
            permute=permute or (),
            onnx=onnx,
            notify=lambda line: messages.write(f"{line}\n"),
        )
        messages.write(f"{output}: {file.stat().st_size:,} bytes, from {exported}\n")
        if pipe is not None:
            pipe.write(file.read_bytes())
            pipe.flush()
            pipe.close()
    if language is not None:
        sys.stdout.write(f"{header_path(output, language)}: what {output.name} holds\n")
