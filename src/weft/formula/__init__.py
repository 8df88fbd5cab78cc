"""Parse and print formulas of temporal logic, and parse event logs."""
