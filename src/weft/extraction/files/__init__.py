"""CSV, JSON lines and Parquet to batches of a table's rows; see ``source``."""
