"""Checkpoints on disk, which hold what only the coordinator knows (invariant I9). Nothing is pickled (I7).

checkpoints/step-000000100/weights.safetensors    the model: parameters and buffers by name
                           optimizer.safetensors  the optimizer's tensors, `parameter/key`
                           average.safetensors    the averaged weights, if the run has any yet
                           state.json             step, cursor, config, fingerprint, checksums, other state
checkpoints/last                                  symlink to the newest checkpoint
checkpoints/best                                  symlink to the checkpoint with the lowest validation loss
checkpoints/damaged-step-000000120                a damaged checkpoint that a resume skipped and renamed
checkpoints/.*.tmp                                a checkpoint that is being written or removed; the next start
                                                  deletes those that a dead process left
"""
