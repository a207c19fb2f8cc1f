#!/usr/bin/env bash
# chess.js 1.4.0: a mate on the hundredth half-move is a draw to isDraw(), and a mate to isCheckmate(), at the same time.
#
# Guess: at most one of them is true. The laws of chess let a mate go before the fifty-move rule, and python-chess's
#   outcome() and Stockfish do.
# Seen: both are true. Whoever asks isDraw() first labels a won game as drawn.
# Matters: results of self-play or match programs in JavaScript, in endings without pawns, where clocks are high.
# shellcheck source=common.sh
. "$(dirname "$0")/common.sh"
install_node chess.js@1.4.0
install_python chess==1.11.2
cat >mate.mjs <<'JS'
import { Chess } from "chess.js";
const game = new Chess("7k/5Q2/6K1/8/8/8/8/8 w - - 99 80");
game.move("Qg7#");
console.log("seen: chess.js: mate", game.isCheckmate(), "draw", game.isDraw());
process.exit(game.isCheckmate() && game.isDraw() ? 0 : 1);
JS
echo "version: chess.js 1.4.0"
echo "guess: mate true, draw false"
python - <<'PYTHON'
import chess

board = chess.Board("7k/5Q2/6K1/8/8/8/8/8 w - - 99 80")
board.push_san("Qg7#")
print("seen: python-chess:", board.outcome(claim_draw=True))
PYTHON
node mate.mjs
