"""The definitions of a home as text files, and the changes that such files ask for."""
