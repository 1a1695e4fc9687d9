"""The paged-attention engine: block pool, scheduler, runner, and the process around them."""
