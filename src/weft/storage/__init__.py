"""Read and write Delta tables without Spark: logs, data files, answers, history logs, and integrity checks."""
