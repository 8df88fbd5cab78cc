"""The representation of queries: types, scalars, relations, lives.  No I/O, no parser, no Spark."""
