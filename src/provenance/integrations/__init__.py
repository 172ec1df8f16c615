"""Other libraries and the files of other frameworks, each a leaf that nothing else imports."""
