"""The run folder, and what one does with runs: train, resume, join, update, export, compare, search."""
