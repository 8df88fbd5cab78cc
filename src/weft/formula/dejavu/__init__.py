"""DejaVu's language: translate properties of event streams to formulas, and read DejaVu's logs."""
