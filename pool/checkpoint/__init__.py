"""Checkpoints: what only the coordinator knows, on disk (I9). No pickle (I7).

checkpoints/step-000000100/weights.safetensors    the model: parameters and buffers by name
                           optimizer.safetensors  the optimizer's tensors, `parameter/key`
                           state.json             step, cursor, config, other state, SHA-256 of each tensor
checkpoints/last                                  symlink to the newest
"""
