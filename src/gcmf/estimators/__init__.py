"""Estimators: thin fronts over the driver and the fitted model."""
