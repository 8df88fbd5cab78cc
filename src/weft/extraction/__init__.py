"""Load data into tables: ``mail`` and ``files`` read, ``ingest`` stores, ``sources`` polls tracked sources."""
