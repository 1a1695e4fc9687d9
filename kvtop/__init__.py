"""kvtop: see the KV cache of a language model at work."""

__version__ = "0.1.0"
