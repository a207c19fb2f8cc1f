"""Checkpoints: what only the coordinator knows, on disk (I9). No pickle (I7).

checkpoints/step-000000100/weights.safetensors    the model: parameters and buffers by name
                           optimizer.safetensors  the optimizer's tensors, `parameter/key`
                           average.safetensors    the averaged weights, if the run has them by then
                           state.json             step, cursor, config, fingerprint, checksums, other state
checkpoints/last                                  symlink to the newest
checkpoints/best                                  symlink to that with the lowest validation loss
checkpoints/damaged-step-000000120                what a resume refused and went back from
checkpoints/.*.tmp                                being written or removed; of a dead writer: swept at the next start
"""
