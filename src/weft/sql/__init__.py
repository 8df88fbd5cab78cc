"""Text to algebra (parse, bind, lower) and algebra to text (render); the only importer of sqlglot."""
