"""The command ``provenance``."""

from provenance.cli._main import commands, main

__all__ = ["commands", "main"]
