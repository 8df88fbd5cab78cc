"""Deliver answers through channels, and store each message in an outbox so that its channel receives it once."""
