"""Tables in files, read block by block: ``open_files`` picks a reader by format, ``file_source`` makes blocks of it."""
