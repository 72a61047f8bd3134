"""Experiments that can be repeated: each fits, measures, and returns what it found."""
