"""Sorting with more rows than memory holds: files without names, sorted into buckets."""
