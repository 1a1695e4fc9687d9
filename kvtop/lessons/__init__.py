"""Lessons: scripted scenes on a running engine, each with a question that is answered by what really happened."""
