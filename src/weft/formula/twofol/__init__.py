"""Two-sorted first-order logic: formulas with variables for time points."""
