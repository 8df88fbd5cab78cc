"""Translate a query in the dialect of another database into Spark's dialect, or refuse it where its meaning differs."""
