#pragma once

namespace sparsepool::chess {
class Codec;
}

// Text with named columns. The first line names them, and decides what is between them: tabs if it has one, else
// commas, else semicolons. One is `fen`; `score`, `eval`, `evaluation` or `cp`, and `mate`, and `result` are others, in
// any case. The rest counts for nothing. All is as White sees it.
namespace sparsepool::fen_csv {

[[nodiscard]] const chess::Codec& codec();

}  // namespace sparsepool::fen_csv
