"""Not vLLM: a stand-in of its name, for a child process that is started as a real one is. On that one's path only."""
