"""Say what an engine other than Spark does in another way."""
