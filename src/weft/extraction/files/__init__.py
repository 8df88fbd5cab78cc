"""Read CSV, JSON lines and Parquet as batches of rows of a table; ``source`` is the main module."""
