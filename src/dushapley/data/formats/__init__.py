"""Tables out of bytes, one kind of file a module: text, workbooks, databases and others."""
