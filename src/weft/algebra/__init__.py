"""What a query is: types, scalars, relations, lives; no I/O, no parser, no Spark."""
