"""Monitor sources that keep no history: read the current rows, and record how they differ from the last poll."""
