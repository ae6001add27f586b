"""What is measured, and how to run it: ``python -m benchmarks``."""
