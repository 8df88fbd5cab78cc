"""Read CSV, JSON lines and Parquet as batches of a table's rows; see ``source``."""
