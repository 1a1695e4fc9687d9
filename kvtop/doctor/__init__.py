"""What this machine can do: one small check a file, each a plain function that returns findings. No check imports torch
before it is called, and none is ended by what it finds."""
