"""Sources that keep no history, and their monitors: what they hold now, and what has changed since; see ``polling``."""
