"""Files that want to do harm, for every reader of the package, and the judgement of what it makes of them.

``python -m hostile READER N FIRST`` (in ``tests/``) makes N files and reads each in a child process with a
limit of memory and of time. A file is made from its number and its reader's name alone, so that one line is
enough to make it again. What may come out: a right verdict, or a `ProvenanceError`.
"""
