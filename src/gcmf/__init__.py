"""Group-sparse collective matrix factorization."""

__version__ = "0.1.0"
