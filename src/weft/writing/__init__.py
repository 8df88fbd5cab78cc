"""Write to the tables of a home: reserve, commit, record; and settle what a dead writer has left."""
