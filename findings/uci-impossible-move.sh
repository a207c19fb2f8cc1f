#!/usr/bin/env bash
# Stockfish 15.1, Toga II 3.0, Glaurung 2.2, GNU Chess 6.2.7 (Debian 12): a move of `position` that can't be played.
#
# Guess: an error, or no answer. The UCI protocol has `info string` for remarks; it says of the moves only that they are to
#   be played, and of unknown words that they are skipped.
# Seen: Stockfish forgets that move and all behind it and searches the position before, for the other side; the three others
#   move whatever stands there. All give a score and a move. A castling written king takes rook (e1h1), as in Chess960,
#   is such a move as long as UCI_Chess960 is off: Stockfish answers with another move of White's.
# Matters: scores of another position, with the other sign, become labels. Compare the answer with the legal moves.
# shellcheck source=common.sh
. "$(dirname "$0")/common.sh"
install_debian stockfish toga2 glaurung gnuchess
install_python chess==1.11.2
python - <<'PYTHON'
import subprocess
import sys

import chess

ENGINES = {"stockfish": ["stockfish"], "toga2": ["toga2"], "glaurung": ["glaurung"], "gnuchess": ["gnuchess", "--uci"]}
CASTLES = "4k3/8/8/8/8/8/8/4K2R w K - 0 1"


def answer(command, position):
    """The last score and the move, after `go depth 4`."""
    engine = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    engine.stdin.write(f"uci\nisready\n{position}\ngo depth 4\n")
    engine.stdin.flush()
    score = move = None
    for line in engine.stdout:
        words = line.split()
        if "score" in words:
            at = words.index("score")
            score = " ".join(words[at + 1 : at + 3])
        if line.startswith("bestmove"):
            move = words[1]
            break
    engine.stdin.write("quit\n")
    engine.stdin.close()
    engine.wait(10)
    return score, move


start = chess.Board()
start.push_uci("e2e4")  # Black to move: e7e4 can't be played
black = {move.uci() for move in start.legal_moves}
castles = {move.uci() for move in chess.Board(CASTLES).legal_moves}
print("guess: no bestmove, or an info string")
seen = {}
for name, command in ENGINES.items():
    impossible = answer(command, "position startpos moves e2e4 e7e4 d1h5")
    castled = answer(command, f"position fen {CASTLES} moves e1h1")
    seen[name] = (impossible[0] is not None, impossible[1] in black, castled[0] is not None, castled[1] in castles)
    print(f"seen: {name}: e2e4 e7e4 d1h5: {impossible}, a reply of Black's: {seen[name][1]};", end=" ")
    print(f"e1h1: {castled}, White to move again: {seen[name][3]}")
answered = all(scored for scored, *_ in seen.values()) and all(each[2] for each in seen.values())
sys.exit(not (answered and seen["stockfish"][3] and not any(seen[name][3] for name in ("toga2", "glaurung", "gnuchess"))))
PYTHON
