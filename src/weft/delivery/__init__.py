"""Answers going out: channels, and the outbox that gives each message to its channel once."""
