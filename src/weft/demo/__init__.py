"""The demo: a small generated NetNews, and a tour of Weft with it."""
