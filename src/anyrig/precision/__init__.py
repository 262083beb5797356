"""Precisions: which to use and why, how they are applied, whether the device has them right."""
