"""`python -m transher`."""

from transher.cli.main import main

main(prog_name="transher")
