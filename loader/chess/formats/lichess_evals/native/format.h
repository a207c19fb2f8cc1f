#pragma once

namespace sparsepool::chess {
class Codec;
}

// Evaluations as https://database.lichess.org/#evals has them, an object on each line:
//
//     {"fen": "2bq1rk1/... w - -", "evals": [{"pvs": [{"cp": 311, "line": "g2g4 f5e6"}], "knodes": 206765, "depth":
//     36}]}
//
// The score is that of the first variation of the deepest evaluation, of equally deep ones of that with more nodes; the
// move is the first of that variation. `cp` and `mate`, in moves, are White's. There is no result.
namespace sparsepool::lichess_evals {

[[nodiscard]] const chess::Codec& codec();

}  // namespace sparsepool::lichess_evals
