"""Sources to tables: ``mail`` and ``files`` read them, ``ingest`` stores what they give."""
