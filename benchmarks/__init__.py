"""Benchmarks: every number in the README comes from one of these."""
