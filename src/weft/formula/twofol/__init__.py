"""Two-sorted first-order logic: formulas that name the time points that they speak of."""
