"""One module a command, each imported only when its command runs: ``configure(parser)`` and ``run(args) -> int``."""
