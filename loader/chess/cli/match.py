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

    programs = engine or []
    if not 1 <= len(programs) <= 2:
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
    networks = nets or []
    players = []
    names = []
    for index in range(2):
        program = programs[index % len(programs)]
        network = networks[index] if index < len(networks) else None
        net_options = [] if network is None else [(net_option, str(network.resolve()))]
        players.append(EngineSettings(program, (*options, *net_options), timeout=timeout))
        names.append(program if network is None else str(network))
    first, second = players
    if first == second:
        raise UsageError("both sides are the same: name a network or two, or two engines")
    limits = Limits(DEFAULT_NODES if nodes is None and depth is None else nodes, depth)
    settings = MatchSettings(
        (first, second),
        games // 2,
        GameSettings(limits),
        seed,
        choose_random_plies(random_plies, book),
        book,
        threads,
        test,
    )
    score, exit_code = MatchScore(), 0
    with position_progress(games, "games") as report:
        try:
            for score in match(settings, report.notify):
                llr = f", LLR {test.llr(score.pairs):+z.2f}" if test else ""
                report.progress(score.games, f"Elo {_format_elo(score)}{llr}")
        except InterruptedBySignalError as interrupted:
            if not score.games:
                raise
            exit_code = interrupted.exit_code
    sys.stdout.write(f"{names[0]} against {names[1]}\n{describe_score(score, test)}\n{format_json(score, test)}")
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


def describe_score(score: MatchScore, test: Sprt | None = None) -> str:
    """Describes the score of a match in three lines of text, and the state of a sequential test in a fourth."""
    counts = f"{score.wins} won, {score.draws} drawn, {score.losses} lost of {score.games} games"
    points_of_pair = ("0", "1/2", "1", "3/2", "2")
    pairs = ", ".join(f"{count} with {points}" for count, points in zip(score.pairs, points_of_pair, strict=True))
    superiority = f", the stronger one with a likelihood of {score.superiority:.1%}" if score.error else ""
    lines = [f"{counts}: {score.score:.1%}", f"pairs by points: {pairs}", f"Elo {_format_elo(score)}{superiority}"]
    if test is not None:
        lines.append(_describe_test(score, test))
    return "\n".join(lines)


def _describe_test(score: MatchScore, test: Sprt) -> str:
    """Describes the state of a sequential test in one line."""
    from loader.chess.engines.sprt import LOWER, UPPER

    accepted = test.accepted_hypothesis(score.pairs)
    elo = test.elo0 if accepted == "H0" else test.elo1
    result = "not decided" if accepted is None else f"{accepted} accepted, {elo:+g} Elo"
    bounds = f"({LOWER:.2f}, {UPPER:.2f})"
    return f"SPRT of {test.elo0:+g} against {test.elo1:+g} Elo: LLR {test.llr(score.pairs):+z.2f} {bounds}, {result}"


def _format_elo(score: MatchScore) -> str:
    error = f"+- {score.elo_error:.1f}" if score.error else "with no error known: all pairs ended alike"
    return f"{score.elo:+.1f} {error}"


def format_json(score: MatchScore, test: Sprt | None = None) -> str:
    """Returns the score of a match as one line of JSON. Keys about the error are omitted if there is none, and keys
    about the test without one."""
    from loader.chess.engines.sprt import LOWER, UPPER

    error_keys = {"elo_error": score.elo_error, "superiority": score.superiority} if score.error else {}
    test_keys = {}
    if test is not None:
        bounds = {"elo0": test.elo0, "elo1": test.elo1, "lower": LOWER, "upper": UPPER}
        accepted = test.accepted_hypothesis(score.pairs)
        test_keys = {"llr": test.llr(score.pairs), "sprt": {**bounds, "accepted": accepted}}
    return json_line(
        {
            "elo": score.elo,
            **error_keys,
            "score": score.score,
            "wins": score.wins,
            "draws": score.draws,
            "losses": score.losses,
            "games": score.games,
            **test_keys,
        }
    )
