"""Models on this machine: which are known, where they lie, how they get there. No torch until one is converted."""
