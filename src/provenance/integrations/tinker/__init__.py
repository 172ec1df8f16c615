"""The official SDK, PyPI `tinker` 0.27 and later: its objects and ours, its requests, and a guard before it.

Needs the extra `tinker`. Importing this package imports the SDK, which takes seconds.

Raises:
    MissingDependencyError: the SDK is not installed.
    ProvenanceError: it is older than provenance.
"""

from provenance.integrations.tinker._convert import from_tinker, to_tinker
from provenance.integrations.tinker._guard import guard
from provenance.integrations.tinker._request import request_bytes, write_request

__all__ = ["from_tinker", "guard", "request_bytes", "to_tinker", "write_request"]
