"""The two engines that compute views and synopses: DuckDB in this process, and Spark."""
