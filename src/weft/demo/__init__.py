"""A tour of Weft with a small generated NetNews."""
