"""A UCI engine for tests that does what a script tells it: plays quickly, by the position alone, or fails in some way.

Usable as a program: `write_engine` makes one. Its script is a list of words, each a kind of failure and when it comes:

    start           ends at once              silent          never says uciok
    unready         never says readyok        garbage         prints noise before each answer
    crash:N         ends in search N          hang:N          does not answer search N (of this process)
    illegal:N       an illegal move           null:N          gives up, though there are moves
    chance:P        ends in a search with probability P percent, by true chance
    flood:N         endless lines             endless:N       a line without an end
    refuses:P       ends when it is asked for P percent of all first positions, the same ones always
    sticks:P        hangs at P percent of all positions, the same ones always
    mute:P          no score for P percent of all positions, the same ones always
    held            does not answer from search 100 on while there is a file `hold` beside the program
    lost            every score is 30 pawns   unscored:N      no score
    loses           every score is -30 pawns
    nodes:N         reports N nodes of each search, whatever it was asked for
    complains       can't load the file of EvalFile, says so, and goes on
"""

from __future__ import annotations

import os
import random
import sys
import textwrap
import zlib
from pathlib import Path

from tests.support.paths import ROOT

OPTIONS = (
    "option name Hash type spin default 16 min 1 max 1024",
    "option name Threads type spin default 1 min 1 max 8",
    "option name EvalFile type string default <empty>",
    "option name Style type combo default Solid var Solid var Very Risky",
    "option name Ponder type check default false",
    "option name Clear Hash type button",
    "option name UCI_Chess960 type check default false",
)


def write_engine(path: Path, *script: str) -> Path:
    """An executable file."""
    path.write_text(
        textwrap.dedent(
            f"""\
            #!{sys.executable}
            import sys
            sys.path.insert(0, {str(ROOT)!r})
            from tests.support.programs.scripted_engine import main
            main({list(script)!r})
            """
        ),
        encoding="utf-8",
    )
    path.chmod(0o755)
    return path


def main(script: list[str]) -> None:
    """Speaks UCI on the standard streams until they close."""
    if "start" in script:
        sys.stderr.write("terminate called: no network\n")
        sys.exit(3)
    faults = dict(word.split(":") for word in script if ":" in word)
    at = {kind: int(number) for kind, number in faults.items()}
    searches, position = 0, ""
    for line in sys.stdin:
        match line.split():
            case ["uci"] if "silent" not in script:
                say("id name Scripted 1", *OPTIONS, "uciok")
            case ["isready"] if "unready" not in script:
                say("readyok")
            case ["setoption", *_]:
                remember(line)
                if "complains" in script and "EvalFile" in line:
                    say("info string ERROR: the network file was not loaded")
            case ["position", "fen", *_]:
                position = line.strip().removeprefix("position fen ")
            case ["go", *_]:
                searches += 1
                fail(next((kind for kind, number in at.items() if number == searches), ""))
                if "held" in script and searches >= 100 and Path(sys.argv[0]).with_name("hold").exists():
                    fail("hang")
                if random.SystemRandom().random() * 100 < at.get("chance", 0):
                    os._exit(1)
                if " moves " not in position and zlib.crc32(position.encode()) % 100 < at.get("refuses", 0):
                    os._exit(2)
                if " moves " not in position and zlib.crc32(position.encode()) % 100 < at.get("sticks", 0):
                    fail("hang")
                if "garbage" in script:
                    sys.stdout.buffer.write(b"\xff\xfe info score cp\ninfo score mate x\n\n\tinfo score\n")
                answer(
                    position,
                    {"lost": 3000, "loses": -3000}.get(script[0] if script else ""),
                    at.get("mute", 0),
                    at.get("nodes"),
                )


def answer(position: str, score: int | None, mute: int, nodes: int | None) -> None:
    """A move and a score that depend on the position alone; `nodes`: reported, if it is given."""
    import chess

    fen, _, moves = position.partition(" moves ")
    board = chess.Board(fen, chess960=not set(fen.split()[2]) <= set("KQkq-"))
    for move in moves.split():
        board.push_uci(move)
    legal = list(board.legal_moves)
    digest = zlib.crc32(board.fen().encode())
    cp = digest % 401 - 200 if score is None else score
    best = legal[digest % len(legal)].uci() if legal else "(none)"
    if digest % 100 >= mute:
        say(f"info depth 1 score cp {cp}" + ("" if nodes is None else f" nodes {nodes}"))
    say(f"bestmove {best}")


def fail(kind: str) -> None:
    """Fails as the script says; most kinds do not return."""
    match kind:
        case "crash":
            sys.stderr.write("segmentation fault, as it were\n")
            os._exit(5)
        case "hang":
            sys.stdin.read()  # until the other side has gone
            os._exit(0)
        case "illegal":
            say("info score cp 1", "bestmove e1e8")
        case "null":
            say("info score cp 1", "bestmove 0000")
        case "unscored":
            say("bestmove e2e4")
        case "flood":
            while True:
                say("info string all is well")
        case "endless":
            while True:
                sys.stdout.write("x" * 65536)


def say(*lines: str) -> None:
    try:
        sys.stdout.write("".join(f"{line}\n" for line in lines))
        sys.stdout.flush()
    except BrokenPipeError:
        os._exit(0)


def remember(line: str) -> None:
    """Options go to a file beside the program, if the test has made one."""
    path = Path(sys.argv[0]).with_suffix(".options")
    if path.exists():
        with path.open("a", encoding="utf-8") as file:
            file.write(line)
