"""The types, scalars, relations and formulas that represent queries.  The package uses no I/O and no Spark."""
