"""The types of this package for other languages: JSON Schemas, the rules as data, and conformance vectors."""

from provenance.json_schema.catalogue import rule_catalogue
from provenance.json_schema.changes import Change, changes
from provenance.json_schema.conformance import vectors
from provenance.json_schema.documents import MAJOR, TYPES, bundle, openapi, schema

__all__ = ["MAJOR", "TYPES", "Change", "bundle", "changes", "openapi", "rule_catalogue", "schema", "vectors"]
