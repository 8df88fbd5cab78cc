"""The records of a home as values for JSON.  The command line, the page and the HTTP API share these functions.

Each module has the records of one area.  Instants are RFC 3339 text in UTC.  The names of fields are stable: programs
read them.
"""
