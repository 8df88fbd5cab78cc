"""The wall clock, and the loop that polls, ticks, delivers and maintains a home."""
