"""The training of networks for chess, whatever task they are of: settings, loss, fake quantization, the task's base."""
