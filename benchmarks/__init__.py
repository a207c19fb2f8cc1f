"""Speeds, as ratios within one run: `python -m benchmarks.NAME`, or `make bench` for all (docs/performance.md)."""
