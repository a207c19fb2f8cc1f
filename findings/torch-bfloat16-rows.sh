#!/usr/bin/env bash
# torch 2.13.0, CPU: the gradient of a row of a bfloat16 table stops growing at 256 uses (float16: at 2048).
#
# Guess: as forward, which adds up in float32: EmbeddingBag over 1,000 ones gives 1,000, and so do index_add
#   of rows and the gradient of index_select. torch's own sum() of
#   bfloat16 adds up in float32, too.
# Seen: the gradient of a row that a batch uses 1,000 times, each with gradient 1, is 256 for Embedding, EmbeddingBag,
#   table[rows], sparse gradients (sum and coalesce) and segment_reduce. 256 + 1 is 256 in bfloat16: additions are lost.
# Matters: frequent features (a king's square, the missing category) learn too slowly, rare ones as they should.
# shellcheck source=common.sh
. "$(dirname "$0")/common.sh"
install_python torch==2.13.0 numpy==2.4.6
python -W ignore - <<'PYTHON'
import sys

import torch
import torch.nn.functional as F

USES = 1000
rows, first = torch.zeros(USES, dtype=torch.long), torch.tensor([0])


def gradient(use):
    table = torch.ones(4, 8, dtype=torch.bfloat16, requires_grad=True)
    use(table).sum().backward()
    found = table.grad.to_dense() if table.grad.is_sparse else table.grad
    return found[0, 0].item()


seen = {
    "forward of EmbeddingBag": F.embedding_bag(rows, torch.ones(4, 8, dtype=torch.bfloat16), first, mode="sum")[0, 0].item(),
    "index_add of rows": torch.zeros(4, 8, dtype=torch.bfloat16)
    .index_add_(0, rows, torch.ones(USES, 8, dtype=torch.bfloat16))[0, 0]
    .item(),
    "gradient of index_select": gradient(lambda table: table.index_select(0, rows)),
    "gradient of EmbeddingBag": gradient(lambda table: F.embedding_bag(rows, table, first, mode="sum")),
    "gradient of Embedding": gradient(lambda table: F.embedding(rows, table)),
    "gradient of Embedding, sparse": gradient(lambda table: F.embedding(rows, table, sparse=True)),
    "gradient of table[rows]": gradient(lambda table: table[rows]),
    "segment_reduce": torch.segment_reduce(
        torch.ones(USES, dtype=torch.bfloat16), "sum", lengths=torch.tensor([USES])
    ).item(),
}
print("version: torch", torch.__version__)
print(f"guess: all {USES}")
print("seen:", seen)
sys.exit(list(seen.values()) != [1000.0] * 3 + [256.0] * 5)
PYTHON
