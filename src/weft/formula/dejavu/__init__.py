"""DejaVu's language: specifications of properties over streams of events, read as formulas, and its logs."""
