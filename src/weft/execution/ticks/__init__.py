"""Ticks: compute what became true since the last tick, stratum by stratum, and commit it."""
