"""Parse formulas of temporal logic and event logs, and print formulas."""
