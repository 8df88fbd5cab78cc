"""Evaluate synopses over batches of states."""
