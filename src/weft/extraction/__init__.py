"""Load data into tables: ``mail`` and ``files`` read data, ``ingest`` stores it, and ``sources`` polls tracked
sources.
"""
