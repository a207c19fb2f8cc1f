#!/usr/bin/env bash
# python-chess 1.11.2: outcome(claim_draw=True) ends a game that is not drawn yet, even one that the next move wins.
#
# Guess: with claim_draw=True a position that has occurred three times, or fifty moves without a capture, is a draw too, in
#   place of five times and 75. That is how match programs adjudicate, and outcome() is described so: a game is over by
#   the fifty-move rule and threefold repetition only if claim_draw is given.
# Seen: a draw that some legal move would complete counts already: at a half-move clock of 99 with mate in one on the
#   board, and as soon as one legal move (not the one that is played) would repeat a position. As in the rules of play a
#   player may claim with the move he intends, but nobody has claimed.
# Matters: self-play that ends games by it labels won positions as draws. is_repetition(3) and is_fifty_moves() tell.
# shellcheck source=common.sh
. "$(dirname "$0")/common.sh"
install_python chess==1.11.2
python - <<'PYTHON'
import sys

import chess

mate = chess.Board("7k/8/6K1/8/8/8/8/Q7 w - - 99 90")
fifty = mate.outcome(claim_draw=True)
won = mate.copy()
won.push_uci("a1g7")
repeats = chess.Board("4k3/8/8/8/8/8/8/3QK3 w - - 0 1")
for move in "d1d2 e8e7 d2d1 e7e8 d1d2 e8e7 d2d1".split():  # Black may repeat now by e7e8, and need not
    repeats.push_uci(move)
threefold = repeats.outcome(claim_draw=True)
print("version: python-chess", chess.__version__)
print("guess: no outcome in either position")
print("seen: mate in one, clock 99:", fifty, "| after the mate:", won.outcome(claim_draw=True))
print("seen: a third repetition is possible:", threefold, "| has occurred:", repeats.is_repetition(3))
described = (
    fifty is not None
    and fifty.termination is chess.Termination.FIFTY_MOVES
    and won.outcome(claim_draw=True).winner is True
    and threefold is not None
    and threefold.termination is chess.Termination.THREEFOLD_REPETITION
    and not repeats.is_repetition(3)
)
sys.exit(not described)
PYTHON
