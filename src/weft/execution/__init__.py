"""Execution of queries, loads and ticks with Spark, Delta and Arrow."""
