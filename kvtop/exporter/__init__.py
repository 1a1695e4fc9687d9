"""The exporter: inside somebody's vLLM server it reads the true block tables and tells them as batches of events."""
