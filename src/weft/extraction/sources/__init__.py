"""Monitor sources that keep no history. A poll reads the current rows and records what has changed."""
