"""Text of temporal logic and logs of events to formulas and states, and back."""
