"""Render operations on relations over time as SQL for DuckDB and Spark.

An *axis* says how the columns of a relation are named.  A *dialect* says what the engine can do.  Each operation is
written once over both.
"""
