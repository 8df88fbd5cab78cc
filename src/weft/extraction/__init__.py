"""Load data into tables from mail (``mail``), files (``files``) and tracked sources (``sources``)."""
