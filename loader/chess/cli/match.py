"""`loader match`: measures how much stronger one network or engine plays than another."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from loader.chess.cli.engine_options import (
    DEFAULT_TIMEOUT,
    OPENING,
    PANEL,
    BookFile,
    Depth,
    Nodes,
    Options,
    RandomPlies,
    Timeout,
    check_chess,
    choose_random_plies,
    parse_options,
)
from loader.command_line.json_line import json_line
from loader.errors import InterruptedBySignalError, UsageError

if TYPE_CHECKING:
    from loader.chess.engines.match import MatchScore
    from loader.chess.engines.sprt import Sprt

# late imports: a command loads what it uses, so that --help and mistakes are answered at once

DEFAULT_NODES = 5000


def register(app: typer.Typer) -> None:
    app.command(name="match")(play_match)


def play_match(
    nets: Annotated[
        list[Path] | None,
        typer.Argument(metavar="NET", help="Networks that play; the engine's own for the second, or both."),
    ] = None,
    engine: Annotated[
        list[str] | None,
        typer.Option(
            "--engine",
            metavar="PATH",
            help="A UCI engine; two if they differ.",
            show_default=False,
            rich_help_panel=PANEL,
        ),
    ] = None,
    games: Annotated[int, typer.Option(min=2, max=10**7, metavar="N", help="Games, an even number.")] = 200,
    sprt: Annotated[
        str,
        typer.Option(
            metavar="ELO0,ELO1",
            help="End as soon as a sequential test has decided between two differences, as 0,5; --games at most.",
        ),
    ] = "",
    threads: Annotated[int, typer.Option(min=1, max=256, metavar="N", help="Games at a time.")] = 1,
    nodes: Nodes = None,
    depth: Depth = None,
    net_option: Annotated[
        str, typer.Option(metavar="NAME", help="The engine's option for a network.", rich_help_panel=PANEL)
    ] = "EvalFile",
    option: Options = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
    book: BookFile = None,
    random_plies: RandomPlies = None,
    seed: Annotated[
        int, typer.Option(metavar="N", help="Another seed makes other openings.", rich_help_panel=OPENING)
    ] = 0,
) -> int:
    """Let two networks play against each other in a UCI engine, or two engines.

    Games come in pairs: from each opening both play both sides. A search has 5000 nodes unless --nodes or --depth say
    otherwise, so the match depends on engines, networks and seed alone, with any --threads. Games end by the rules, or
    when the scores of both have settled them.

    The result is the first one's: wins, draws and losses; pairs by their points; Elo with the half width of its 95 %
    interval, from the pairs; and how likely it is the stronger one. The last line is the same as JSON, so that the
    command serves as train.on_export, with {net} for the first NET. Ctrl-C ends the match with what has been played.

    --sprt is the test of fishtest and fastchess in logistic Elo, on pairs, with errors of 5 %: H0 is accepted when the
    log-likelihood ratio (LLR) falls to -2.94, H1 when it rises to 2.94. For tests at time controls, give fastchess or
    OpenBench the exported network.
    """
    check_chess("match")
    from loader.chess.cli.position_progress import position_progress
    from loader.chess.engines.engine import EngineSettings, Limits
    from loader.chess.engines.game import GameSettings
    from loader.chess.engines.match import MatchScore, MatchSettings, match

    players = engine or []
    if not 1 <= len(players) <= 2:
        raise typer.BadParameter("give one, for two networks, or two", param_hint="--engine")
    if len(nets or ()) > 2:
        raise UsageError(f"{nets[2]}: a match is of two networks")  # type: ignore[index]
    for net in nets or ():
        if not net.is_file():
            raise UsageError(f"{net}: no such file")
    if games % 2:
        raise typer.BadParameter(f"{games} games are no pairs: give an even number", param_hint="--games")
    test = _parse_sprt(sprt) if sprt else None
    options = parse_options(option or [], "--threads")
    given = [[(net_option, str(net.resolve()))] for net in nets or ()]
    made = tuple(
        EngineSettings(players[n % len(players)], (*options, *(given[n] if n < len(given) else ())), timeout=timeout)
        for n in range(2)
    )
    if made[0] == made[1]:
        raise UsageError("both sides are the same: name a network or two, or two engines")
    limits = Limits(DEFAULT_NODES if nodes is None and depth is None else nodes, depth)
    settings = MatchSettings(
        made,  # type: ignore[arg-type]
        games // 2,
        GameSettings(limits),
        seed,
        choose_random_plies(random_plies, book),
        book,
        threads,
        test,
    )
    standing, exit_code = MatchScore(), 0
    with position_progress(games, "games") as report:
        try:
            for standing in match(settings, report.notify):
                llr = f", LLR {test.llr(standing.pairs):+z.2f}" if test else ""
                report.progress(standing.games, f"Elo {_with_error(standing)}{llr}")
        except InterruptedBySignalError as interrupted:
            if not standing.games:
                raise
            exit_code = interrupted.exit_code
    names = [str(nets[n]) if nets and n < len(nets) else players[n % len(players)] for n in range(2)]
    sys.stdout.write(f"{names[0]} against {names[1]}\n{describe_score(standing, test)}\n{format_json(standing, test)}")
    return exit_code


def _parse_sprt(text: str) -> Sprt:
    """Parses the two Elo differences of --sprt. Raises BadParameter."""
    from loader.chess.engines.sprt import MAX_ELO, Sprt

    try:
        elo0, elo1 = (float(number) for number in text.split(","))
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not two numbers, as 0,5", param_hint="--sprt") from None
    if not -MAX_ELO <= elo0 < elo1 <= MAX_ELO:
        raise typer.BadParameter(
            f"{text}: the first is to be less than the second, both within +-{MAX_ELO:.0f}", param_hint="--sprt"
        )
    return Sprt(elo0, elo1)


def describe_score(standing: MatchScore, test: Sprt | None = None) -> str:
    """Describes a standing in three lines of text, and the state of a sequential test in a fourth."""
    counts = f"{standing.wins} won, {standing.draws} drawn, {standing.losses} lost of {standing.games} games"
    pairs = ", ".join(
        f"{count} with {points}" for count, points in zip(standing.pairs, ("0", "1/2", "1", "3/2", "2"), strict=True)
    )
    stronger = f", the stronger one with a likelihood of {standing.superiority:.1%}" if standing.error else ""
    words = f"{counts}: {standing.score:.1%}\npairs by points: {pairs}\nElo {_with_error(standing)}{stronger}"
    return f"{words}\n{_test_in_words(standing, test)}" if test else words


def _test_in_words(standing: MatchScore, test: Sprt) -> str:
    """Describes the state of a sequential test in one line."""
    from loader.chess.engines.sprt import LOWER, UPPER

    accepted_hypothesis = test.accepted_hypothesis(standing.pairs)
    elo = {"H0": test.elo0, "H1": test.elo1}.get(accepted_hypothesis or "")
    result = "not decided" if elo is None else f"{accepted_hypothesis} accepted, {elo:+g} Elo"
    bounds = f"({LOWER:.2f}, {UPPER:.2f})"
    return f"SPRT of {test.elo0:+g} against {test.elo1:+g} Elo: LLR {test.llr(standing.pairs):+z.2f} {bounds}, {result}"


def _with_error(standing: MatchScore) -> str:
    error = f"+- {standing.elo_error:.1f}" if standing.error else "with no error known: all pairs ended alike"
    return f"{standing.elo:+.1f} {error}"


def format_json(standing: MatchScore, test: Sprt | None = None) -> str:
    """Returns the standing as one line of JSON. Keys about the error are omitted if there is none, and keys about the
    test without one."""
    from loader.chess.engines.sprt import LOWER, UPPER

    by_error = {"elo_error": standing.elo_error, "superiority": standing.superiority} if standing.error else {}
    by_test = {}
    if test:
        accepted_hypothesis = test.accepted_hypothesis(standing.pairs)
        bounds = {"elo0": test.elo0, "elo1": test.elo1, "lower": LOWER, "upper": UPPER}
        by_test = {"llr": test.llr(standing.pairs), "sprt": {**bounds, "accepted": accepted_hypothesis}}
    return json_line(
        {
            "elo": standing.elo,
            **by_error,
            "score": standing.score,
            "wins": standing.wins,
            "draws": standing.draws,
            "losses": standing.losses,
            "games": standing.games,
            **by_test,
        }
    )
