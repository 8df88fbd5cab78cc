"""Parse temporal logic and event logs to formulas and states, and print formulas."""
