"""The engine behind an OpenAI-compatible HTTP interface: calls become commands, events become answers."""
