"""`python -m deepsea_cli` is `deepsea-referee`."""

from deepsea_cli import main

main()
