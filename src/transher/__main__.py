"""`python -m transher`."""

from transher.cli import main

main(prog_name="transher")
