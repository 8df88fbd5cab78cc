"""Sources to tables: mail (mbox, articles, archives) and files (CSV, JSON lines, Parquet); see ``ingest``."""
