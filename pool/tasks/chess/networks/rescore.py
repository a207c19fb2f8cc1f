"""The command `pool rescore`, which gives all positions of some files new scores by a network, the teacher of another
one."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import numpy.typing as npt
import typer

from loader.chess.cli.pgn_options import with_pgn_options
from loader.chess.cli.tool_options import Files, Lossy, OutputFile, To, choose_file_target, report_conversion
from loader.chess.positions.entry import NO_SCORE
from loader.chess.positions.pgn_comments import NO_SETTINGS, PgnComments
from loader.cli.options import ALL_THREADS, AS_MANY_AS_CORES, Format
from loader.stream.data import Data
from loader.stream.sequential import read_in_file_order
from loader.stream.sources import data_config
from pool.checkpoint.digest import start_digest
from pool.commands.arguments import Averaged, Member, NetworkConfig
from pool.errors import ConfigError
from pool.export.member import Choice, parse_member
from pool.tasks.chess.network import Network
from pool.tasks.chess.networks.network_files import open_network
from pool.tasks.chess.positions import PositionBatch

if TYPE_CHECKING:
    from loader.chess.engines.rescore import ProgressReport
    from loader.chess.positions.format import Target
    from loader.chess.positions.input import SourceFile
    from loader.files.interruption import Interruption

# late imports: a command loads what it uses, so that --help and mistakes are answered at once

VERSION = 1  # increased when the same settings give different scores
POSITIONS = "positions"  # key of the work file's state: number of positions scored so far
_LARGEST = 32000  # scores beyond it have special meanings
_UNITS_OF_LC0, _BENT = 660.6, 0.9751875  # lc0 909a4082, src/trainingdata/rescorer.cc
_BATCH = 4096  # positions
_READERS = 2
_SCORES = np.dtype("<i2")

Scores = npt.NDArray[np.int16]


@dataclass(frozen=True)
class WinRate:
    """Converts evaluations to win rates by the curve of the loss (`pool.tasks.chess.training.loss.win_probability`)."""

    offset: float
    scaling: float

    def in_units_of_lc0(self, evaluations: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """Converts evaluations [n] to scores in the unit of Leela's data: the score that lc0 writes for the same
        probability to win less that to lose."""
        win, loss = (
            1 / (1 + np.exp(np.minimum(-(side - self.offset) / self.scaling, 700)))
            for side in (evaluations, -evaluations)
        )
        q = win - loss
        return np.asarray(_UNITS_OF_LC0 * q / (1 - _BENT * q**10))


@dataclass(frozen=True)
class Teacher:
    """Scores positions by a network's evaluations, converted to the unit of the file."""

    network: Network
    scale: float
    win_rate: WinRate | None
    threads: int

    def score(self, block: PositionBatch, before: Scores) -> Scores:
        """Returns the scores of n positions [n], for the side to move. A position without a score in `before` gets
        none."""
        evaluations = self.network.compute_values(block)
        scores = np.rint(self.win_rate.in_units_of_lc0(evaluations) if self.win_rate else evaluations * self.scale)
        return np.where(before == NO_SCORE, before, np.clip(scores, -_LARGEST, _LARGEST).astype(np.int16))


@with_pgn_options
def rescore(
    net: Annotated[
        Path, typer.Argument(metavar="NET", help="network file as pool export writes it; or a checkpoint's folder")
    ],
    files: Files,
    output: OutputFile,
    scale: Annotated[
        float,
        typer.Option(
            min=1e-6,
            max=1e6,
            metavar="X",
            help="scores are the network's evaluations times X, rounded; evaluations are in the network's own units",
        ),
    ] = 1.0,
    win_rate: Annotated[
        str | None,
        typer.Option(
            "--win-rate",
            metavar="OFFSET,SCALING",
            help="scores are as lc0 writes them for the evaluation's win rate, by loss.in_offset and in_scaling",
            show_default=False,
        ),
    ] = None,
    threads: Annotated[
        int,
        typer.Option(
            min=1,
            max=256,
            metavar="N",
            help="threads that evaluate; they change no byte",
            show_default=AS_MANY_AS_CORES,
        ),
    ] = ALL_THREADS,
    config: NetworkConfig = None,
    member: Member = None,
    averaged: Averaged = False,
    input_format: Format = None,
    comments: PgnComments = NO_SETTINGS,
    to: To = None,
    lossy: Lossy = False,
) -> None:
    """Write files of positions anew, each position with a network's evaluation as its score.

    Evaluations are the integers that the network's engine computes (pool eval), without any search, for the side to
    move. Moves and results stay, and so does a score of 32002, which marks a position as without one. Scores are kept
    within 32000. Stockfish's networks evaluate in internal units, as binpack, packedsfen and plain have them; other
    networks and formats have centipawns. --scale makes one of the other: 100 divided by the units of a pawn (pool eval
    prints them), or that the other way. A line says so if it is missing.

    With --win-rate scores are in the unit of Leela's data, whatever the network's: 66 for a tenth more won than lost
    games, 331 for a half, 26,624 for all. OFFSET and SCALING are those of the network's loss, such as 0,400.

    OUT appears when it is complete and never replaces a file. The scores that are there lie in OUT.part, with
    OUT.part.journal; the same command goes on with them, after Ctrl-C, a crash or a power failure.
    """
    from loader.chess.cli.position_progress import position_progress
    from loader.chess.engines.rescore_positions import count_positions
    from loader.chess.positions.input import open_sources, refuse_empty
    from loader.cli.terminal import show_byte_progress
    from loader.files.interruption import record_stop_signals

    rate = None if win_rate is None else _parse_win_rate(win_rate, scale)
    target = choose_file_target(output, to)
    network = open_network(net, Choice(parse_member(member), averaged=averaged), config)
    sources = open_sources(files, input_format, comments=comments)
    refuse_empty(sources)
    report_conversion(sources, target.format, lossy=lossy, keeps_scores=False)
    if scale == 1.0 and rate is None and network.in_centipawns != target.format.in_centipawns:
        units = "centipawns" if target.format.in_centipawns else "Stockfish's internal units"
        sys.stderr.write(
            f"{output}: its format has {units}, the network {network.units}: --scale makes one of the other\n"
        )
    began = time.monotonic()
    with record_stop_signals() as interruption:
        with show_byte_progress(f"checking {output.name}") as progress:
            whole = count_positions(sources, target.format, interruption.check, progress)
        with position_progress(whole) as report:
            identity = {"network": start_digest(net), "--ema": averaged, "--member": member, "--scale": scale}
            if config:
                identity["--config"] = start_digest(config)
            if rate:
                identity["--win-rate"] = [rate.offset, rate.scaling]
            _write(
                Teacher(network, scale, rate, threads), sources, whole, target, output, identity, report, interruption
            )
    seconds = time.monotonic() - began
    sys.stdout.write(f"{output}: {whole:,} positions in {seconds:.0f} s\n")


def _parse_win_rate(text: str, scale: float) -> WinRate:
    """Parses the option `--win-rate OFFSET,SCALING`. Raises typer.BadParameter."""
    if scale != 1.0:
        raise typer.BadParameter("give one of --scale and --win-rate", param_hint="--win-rate")
    try:
        offset, scaling = (float(number) for number in text.split(","))
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not two numbers, as 0,400", param_hint="--win-rate") from None
    if not (abs(offset) <= _LARGEST and 1 <= scaling <= _LARGEST):
        raise typer.BadParameter(
            f"{text}: the offset is to be within +-{_LARGEST}, the scaling from 1 to {_LARGEST}",
            param_hint="--win-rate",
        )
    return WinRate(offset, scaling)


def _write(
    teacher: Teacher,
    sources: Sequence[SourceFile],
    whole: int,
    target: Target,
    out: Path,
    identity: dict[str, Any],
    report: ProgressReport,
    interruption: Interruption,
) -> None:
    """Computes the scores, and writes the file of positions with them. Scores go to a work file first, from which the
    same command continues after a stop."""
    from loader.chess.engines.rescore_positions import write_rescored
    from loader.chess.engines.rescore_settings import content_digest
    from loader.chess.positions.output import check_output, compress
    from loader.files.delivery import deliver_new, is_delivered
    from loader.files.work_file import WorkFile

    known = tuple(source.data_file for source in sources if source.data_file is not None)
    settings = {
        "scores of version": VERSION,
        "format": f"{target.format.name} {target.packing or ''}".strip(),
        "files": content_digest(known),
        **identity,
    }
    with WorkFile(out, settings, {POSITIONS: 0}) as work:

        def blocks() -> Iterator[bytes]:
            scores = np.memmap(work.part, _SCORES, mode="r", shape=(whole,))
            for block in compress(write_rescored(sources, target.format, scores), target):
                interruption.check()
                yield block

        if work.done or is_delivered(work, blocks):
            work.remove()
            return
        check_output(out, 0)
        for scores in _scores(teacher, sources, work.state[POSITIONS]):
            interruption.check()
            done = work.state[POSITIONS] + len(scores)
            work.commit(scores.astype(_SCORES).tobytes(), {**work.state, POSITIONS: done})
            report.progress(done)
        if work.state[POSITIONS] != whole:
            raise ConfigError(f"{out}: {work.state[POSITIONS]:,} of {whole:,} positions can be evaluated")
        work.sync()
        deliver_new(work, blocks)


def _scores(teacher: Teacher, sources: Sequence[SourceFile], begin: int) -> Iterator[Scores]:
    """Yields the scores of all positions except the first `begin`, in their order. Raises DataError."""
    inputs = teacher.network.inputs
    chess = {
        "features": inputs.features,
        "king_buckets": list(inputs.king_buckets),
        "output_buckets": "single",
        "filters": {"skip_no_score": False},
    }
    formats = {source.format.name for source in sources}
    of_one = {"format": formats.pop()} if len(formats) == 1 else {}
    config = data_config(batch_size=_BATCH, threads=_READERS, chess=chess, **of_one)
    known = tuple(source.data_file for source in sources if source.data_file is not None)
    waiting = deque[Future[Scores]]()
    with ThreadPoolExecutor(teacher.threads) as pool:
        for batch, order in read_in_file_order(Data(config, known)):
            samples = len(order)
            if begin >= samples:
                begin -= samples
                continue
            before = batch.dense["score"][:samples].astype(np.int16)
            waiting.append(pool.submit(teacher.score, PositionBatch.from_batch(batch, samples), before))
            if len(waiting) > 2 * teacher.threads:
                yield waiting.popleft().result()[begin:]
                begin = 0
        while waiting:
            yield waiting.popleft().result()[begin:]
            begin = 0
