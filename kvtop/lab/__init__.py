"""The policy lab: the engine's own scheduler and pool under a workload of known lengths, without a model."""
