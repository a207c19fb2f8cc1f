#!/usr/bin/env bash
# python-chess 1.11.2 against chess.js 1.4.0 and kokopu: which result a game has if its tag and its end disagree.
#
# Guess: all take the same one, or refuse the game. The PGN standard says that both must be the same.
# Seen: [Result "1-0"] with moves that end in 0-1 is White's win for python-chess, Black's for chess.js and kokopu; an end
#   of * makes the result unknown for the latter two; a tag of ? hides the win from python-chess (one of * does not). Nothing
#   is said.
# Matters: adjudicating match programs and killed writers leave such games, and the result is a label of every position.
# shellcheck source=common.sh
. "$(dirname "$0")/common.sh"
install_python chess==1.11.2
install_node chess.js@1.4.0 kokopu@4.13.4
cat >games.json <<'JSON'
[["1-0", "0-1"], ["1/2-1/2", "1-0"], ["1-0", "*"], ["*", "1-0"], ["?", "1-0"]]
JSON
cat >read.mjs <<'JS'
import { readFileSync } from "fs";
import { Chess } from "chess.js";
import { pgnRead } from "kokopu";
const rows = JSON.parse(readFileSync("games.json")).map(([tag, end]) => {
    const text = `[Event "x"]\n[Result "${tag}"]\n\n1. e4 e5 ${end}\n`;
    const game = new Chess();
    game.loadPgn(text);
    return [game.getHeaders().Result, pgnRead(text, 0).result()];
});
console.log(JSON.stringify(rows));
JS
node read.mjs >seen.json
python - <<'PYTHON'
import io
import json
import sys
from pathlib import Path

import chess.pgn

games, others = (json.loads(Path(name).read_text()) for name in ("games.json", "seen.json"))
print("version: python-chess", chess.__version__)
print("guess: one result a game")
expected = {("1-0", "0-1"): ("1-0", "0-1"), ("1/2-1/2", "1-0"): ("1/2-1/2", "1-0"), ("1-0", "*"): ("1-0", "*")}
expected |= {("*", "1-0"): ("1-0", "1-0"), ("?", "1-0"): ("?", "1-0")}
changed = False
for (tag, end), (chess_js, kokopu) in zip(games, others, strict=True):
    game = chess.pgn.read_game(io.StringIO(f'[Event "x"]\n[Result "{tag}"]\n\n1. e4 e5 {end}\n'))
    found = game.headers["Result"], chess_js
    print(f"seen: tag {tag}, end {end}: python-chess {found[0]}, chess.js {chess_js}, kokopu {kokopu}; errors {game.errors}")
    changed |= found != expected[tag, end] or kokopu != chess_js or bool(game.errors)
sys.exit(changed)
PYTHON
