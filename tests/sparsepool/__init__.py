"""Tests of the package sparsepool."""
