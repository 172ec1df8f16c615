"""Reports for people and machines; each module here turns a `Report` into one format."""
