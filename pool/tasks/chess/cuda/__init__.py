"""The chess networks' operations for CUDA devices. The same operations for CPUs are in ../cpu."""
