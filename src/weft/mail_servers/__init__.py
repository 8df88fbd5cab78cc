"""The addresses and the sessions of servers from which mail and news are read, and to which letters are appended."""
