"""When things are due: the clock, instants and intervals as text, timeliness."""
