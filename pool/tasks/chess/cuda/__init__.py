"""The chess networks' operations on CUDA devices; their twins for CPUs are in ../cpu."""
