"""The network in integers: its sizes and scales, the .nnue file, quantization, exact evaluation. Free of torch."""
