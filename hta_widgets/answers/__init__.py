"""Answers for programs: tables as JSON, verdicts on two runs, and tools for language models."""
