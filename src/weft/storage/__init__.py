"""What is in Delta, read without Spark: logs, answers, and whether all of it is whole."""
