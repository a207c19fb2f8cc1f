"""The training of chess networks, whichever task they are of: settings, loss, fake quantization, and the base class of
the tasks."""
