"""Parse formulas of temporal logic and event logs.  Print formulas."""
