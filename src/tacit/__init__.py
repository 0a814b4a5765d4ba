"""tacit: recommendations learned from ratings that people never disclose."""

__version__ = "0.1.0"
