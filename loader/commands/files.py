"""`loader inspect`, `loader verify`, `loader dump`: what is in binpack files."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from loader.errors import PipeClosedError

if TYPE_CHECKING:
    from loader.binpack import Verdict
    from loader.statistics import Distribution, Statistics

Files = Annotated[list[Path], typer.Argument(metavar="FILE", help="Binpack files.", show_default=False)]
Json = Annotated[bool, typer.Option("--json", help="One JSON object a line, for programs.")]


def register(app: typer.Typer) -> None:
    app.command(name="inspect")(inspect_files)
    app.command(name="verify")(verify_files)
    app.command(name="dump")(dump_file)


def inspect_files(files: Files, as_json: Json = False) -> None:
    """Show what files hold: chunks, chains, entries; statistics of score, ply, result, pieces and moves.

    Every entry is read. Damage ends in an error that names file and offset.
    """
    from loader.commands.terminal import byte_progress, show_table
    from loader.statistics import inspect

    for path in files:
        with byte_progress(path.name) as progress:
            statistics = inspect(path, progress)
        if as_json:
            sys.stdout.write(json.dumps(asdict(statistics)) + "\n")
        else:
            show_table(statistics.file, table_rows(statistics))


def table_rows(statistics: Statistics) -> list[tuple[str, str]]:
    """Names and values for people."""
    entries = statistics.entries

    def share(count: int) -> str:
        return f"{count:,} ({count / max(entries, 1):.1%})"

    def shares(counts: dict[str, int]) -> str:
        return ", ".join(f"{name.replace('_', ' ')} {share(count)}" for name, count in counts.items())

    def spread(values: Distribution) -> str:
        percentiles = f"5 % {values.p5:,}, median {values.median:,}, 95 % {values.p95:,}"
        return f"{values.min:,} to {values.max:,}, mean {values.mean:,.1f}, deviation {values.std:,.1f}; {percentiles}"

    return [
        ("bytes", f"{statistics.bytes:,}"),
        ("chunks", f"{statistics.chunks:,}"),
        ("chains", f"{statistics.chains:,} ({statistics.entries_per_chain:,.1f} entries each)"),
        ("entries", f"{entries:,} ({statistics.bytes_per_entry:.3f} bytes each)"),
        ("score", spread(statistics.score)),
        ("without score", share(statistics.no_score)),
        ("ply", spread(statistics.ply)),
        ("result", shares(statistics.results)),
        ("pieces", spread(statistics.piece_count)),
        ("moves", shares(statistics.moves)),
        ("captures", share(statistics.captures)),
        ("in check", share(statistics.in_check)),
        ("white to move", share(statistics.white_to_move)),
    ]


def verify_files(
    files: Files,
    as_json: Json = False,
    threads: Annotated[int, typer.Option(min=1, max=256, help="Threads that read.")] = min(os.cpu_count() or 1, 8),
) -> int:
    """Read everything in files and say of each whether it is whole.

    Of a damaged one: the offset of the damage, what is wrong, and how many entries before it are good. An
    offset inside a chunk is that of the chain's first entry. Exit code 1 if any file is damaged or can't be
    read.
    """
    from loader.binpack import verify
    from loader.commands.terminal import byte_progress

    damaged = False
    for path in files:
        with byte_progress(path.name) as progress:
            verdict = verify(path, threads, progress)
        damaged |= not verdict.ok
        if as_json:
            sys.stdout.write(json.dumps(asdict(verdict)) + "\n")
        elif verdict.ok:
            sys.stdout.write(f"{verdict.file}: ok, {verdict.entries:,} entries\n")
        else:
            sys.stdout.flush()
            sys.stderr.write(describe_damage(verdict) + "\n")
    return 1 if damaged else 0


def describe_damage(verdict: Verdict) -> str:
    if verdict.offset is None:
        return f"loader: {verdict.file}: {verdict.reason}"
    where = f"{verdict.file}: offset {verdict.offset}"
    return f"loader: {where}: {verdict.reason}; {verdict.entries:,} good entries before it"


def dump_file(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A binpack file.", show_default=False)],
    limit: Annotated[int | None, typer.Option(min=0, metavar="N", help="Stop after N entries.")] = None,
) -> None:
    """Print entries, one a line: FEN, move (UCI), score, ply, result, separated by tabs.

    Score (internal units) and result (-1, 0, 1) are from the side to move's point of view. Damage ends in an
    error that names file and offset, after the good entries before it.
    """
    from loader.binpack import dump

    out = sys.stdout.buffer
    for lines in dump(file, limit):
        try:
            out.write(lines)
            out.flush()
        except BrokenPipeError:
            raise PipeClosedError from None
