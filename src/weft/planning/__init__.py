"""Plans: the compilation of a query's text."""
