"""Sorting of more rows than memory holds, by way of buckets in temporary files."""
