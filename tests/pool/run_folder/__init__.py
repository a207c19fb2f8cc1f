"""Tests of the files of a run folder."""
