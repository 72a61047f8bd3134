"""How a model is fitted: one iteration, and the methods that are made of it."""
