"""Monitors of sources that keep no history: their current rows, and the changes since the last poll."""
