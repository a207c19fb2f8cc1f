"""Checkpoints of nnue-pytorch, the trainer of Stockfish's networks: read without running what is pickled in them."""
