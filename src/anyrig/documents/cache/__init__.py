"""Vectors that are not made twice: kept ones, those being made, and one desk for many threads."""
