"""`pool eval`: the integers that Stockfish 15.1 computes with a .nnue file. Never imports torch."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Column, Table

from loader._native import extract_fen
from loader.errors import DataError
from loader.named_files import read_named
from pool.errors import ConfigError
from pool.tasks.nnue import arch
from pool.tasks.nnue.evaluate import Evaluation, Position, evaluate, truncating_divide
from pool.tasks.nnue.nnue_file import read_net

_BLOCK = 1024  # positions evaluated before they are shown
_COLUMNS = ("bucket", "psqt", "positional", "value")
_NOTE = "* the bucket in use. Side to move's view; terms in sixteenths, values in internal units (361 = one pawn)."


@dataclass(frozen=True)
class _Named:
    """A position and the FEN it was given as."""

    fen: str
    position: Position


def eval_command(
    net: Annotated[Path, typer.Argument(metavar="NET.nnue", help="network in Stockfish 15.1's format")],
    fen: Annotated[
        list[str] | None, typer.Option("--fen", metavar="FEN", help="a position; may be given several times")
    ] = None,
    epd: Annotated[
        Path | None,
        typer.Option("--epd", metavar="FILE", help="file with a position a line, FEN or EPD; operations are ignored"),
    ] = None,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="one JSON object a position: fen, bucket, psqt [8], positional [8], value"),
    ] = False,
) -> None:
    """Evaluate positions with a network, exactly as Stockfish 15.1 does.

    For each of the 8 output buckets: material (psqt) and positional term in sixteenths of internal units,
    and the value they make, from the side to move's point of view (361 internal units = one pawn).
    """
    if bool(fen) == (epd is not None):
        raise ConfigError("eval: give either --fen (once or more) or --epd FILE")
    named = list(_given(fen or []) if epd is None else _listed(epd))
    network = read_net(net)
    for start in range(0, len(named), _BLOCK):
        block = named[start : start + _BLOCK]
        result = evaluate(network, [entry.position for entry in block])
        _show(block, result, as_json)


def read_fen(fen: str) -> Position:
    """What the network sees of a position. Raises ValueError if it is none."""
    own, opponent, piece_count, _ = extract_fen(fen, arch.FEATURE_SET)
    return Position(own, opponent, piece_count)


def _given(fens: list[str]) -> Iterator[_Named]:
    for text in fens:
        fen = " ".join(text.encode("utf-8", "replace").decode().split())
        try:
            yield _Named(fen, read_fen(fen))
        except ValueError as error:
            raise ConfigError(f"--fen: {error}") from None


def _listed(path: Path) -> Iterator[_Named]:
    try:
        text = read_named(path).decode("utf-8", "replace")
    except OSError as error:
        raise DataError(path, f"can't be read: {error.strerror}") from None
    for number, line in enumerate(text.splitlines(), 1):
        fen = _fen_fields(line)
        if not fen:
            continue
        try:
            yield _Named(fen, read_fen(fen))
        except ValueError as error:
            raise DataError(path, f"line {number}: {error}") from None


def _fen_fields(line: str) -> str:
    """The four fields of an EPD line, or the six of a FEN, without what follows."""
    fields = line.split()
    counters = fields[4:6]
    return " ".join(fields[: 6 if len(counters) == 2 and all(word.isdecimal() for word in counters) else 4])


def _show(block: list[_Named], result: Evaluation, as_json: bool) -> None:
    console = Console(highlight=False, markup=False) if sys.stdout.isatty() and not as_json else None
    values = truncating_divide(result.psqt + result.positional, 16)
    for i, entry in enumerate(block):
        bucket, value = int(result.bucket[i]), int(result.value[i])
        psqt, positional = result.psqt[i].tolist(), result.positional[i].tolist()
        if as_json:
            line = {"fen": entry.fen, "bucket": bucket, "psqt": psqt, "positional": positional, "value": value}
            sys.stdout.write(json.dumps(line) + "\n")
            continue
        rows = [
            (f"{b}{' *' if b == bucket else '  '}", *(str(number) for number in numbers))
            for b, numbers in enumerate(zip(psqt, positional, values[i].tolist(), strict=True))
        ]
        if console is None:
            sys.stdout.write(_plain(entry.fen, rows, value))
        else:
            _pretty(console, entry.fen, rows, value)


def _plain(fen: str, rows: list[tuple[str, ...]], value: int) -> str:
    lines = [f"{a:>8}{b:>10}{c:>12}{d:>10}" for a, b, c, d in (_COLUMNS, *rows)]
    return "\n".join([fen, *lines, f"value {value}", "", ""])


def _pretty(console: Console, fen: str, rows: list[tuple[str, ...]], value: int) -> None:
    console.print(fen, style="bold")
    table = Table(*(Column(name, justify="right") for name in _COLUMNS))
    for row in rows:
        table.add_row(*row, style="green" if row[0].endswith("*") else None)
    console.print(table)
    console.print(f"value {value}", style="bold green")
    console.print(_NOTE, style="dim")
