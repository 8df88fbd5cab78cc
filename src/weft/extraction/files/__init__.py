"""Read CSV, JSON lines and Parquet files in batches of rows. The main module is ``source``."""
