"""Benchmarks of ticks, loads, synopses, views and commands."""
