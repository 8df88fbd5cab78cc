"""Spark and Delta: the session, the tables, the ticks.  The only part that imports pyspark."""
