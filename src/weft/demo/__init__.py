"""A small NetNews of Weft's own, and a story told with it: what a person sees first."""
