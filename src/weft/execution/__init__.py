"""Run queries, loads and ticks with Spark, Delta Lake and Arrow."""
