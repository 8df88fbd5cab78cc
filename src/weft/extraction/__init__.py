"""Load data into tables: ``mail`` and ``files`` read it, ``ingest`` stores it, and ``sources`` poll tracked sources."""
