"""Synopses stepped on: a batch of states of a log, over the relations that are stored."""
