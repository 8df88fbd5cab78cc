"""Deliver answers through channels.  The outbox stores each message so that its channel receives the message once."""
