"""Tests of the page that shows runs."""
