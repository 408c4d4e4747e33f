"""Side-by-side measurements against what a user would pick instead: `python -m benchmarks`, or `make bench`."""
