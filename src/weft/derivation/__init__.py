"""Algebra to algebra, pure: the replay, Q^M, Q^I, and how a branch reaches its tables."""
