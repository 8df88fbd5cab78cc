"""Compile the text of a query into a plan, and explain the plan."""
