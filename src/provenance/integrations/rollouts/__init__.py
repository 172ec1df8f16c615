"""Rollouts that other frameworks wrote, as datums and sampled sequences.

Each module whose name has no underscore in front is a format, and adding one is adding its file:

- ``MARK``: the field that every record of the format has;
- ``SAYS_ALL``: whether records say themselves what `Claims` would;
- ``read(record, claims)``: yields the record's `Trajectory`, and an `Unusable` for what cannot be used of it.
"""

from provenance.integrations.rollouts._formats import Claims, Unusable, importer, names

__all__ = ["Claims", "Unusable", "importer", "names"]
