"""Where batches come from: an engine process, a recording. Each offers the app the same few calls (source.py)."""
