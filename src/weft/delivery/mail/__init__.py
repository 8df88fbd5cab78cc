"""Deliver answers by email: recipients, letters, and the SMTP session."""
