"""The types, scalars, relations and formulas that represent queries.  The package does no I/O and does not use
Spark.
"""
