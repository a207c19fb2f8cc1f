"""Speeds, as ratios in one run: `python -m benchmarks.NAME`, `make bench` for all; docs/explanation/performance.md."""
