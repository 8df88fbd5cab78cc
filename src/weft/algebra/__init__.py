"""The representation of queries: types, scalars, relations and formulas.  The package does no I/O and uses no Spark."""
