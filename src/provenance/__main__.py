"""``python -m provenance``: the command line."""

from provenance.cli import main

main()
