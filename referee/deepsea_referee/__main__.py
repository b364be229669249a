"""`python -m deepsea_referee` is `deepsea-referee`."""

from deepsea_referee.cli import main

main()
