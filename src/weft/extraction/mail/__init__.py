"""Read mail and news (mboxes, folders of articles, and archives of these) as rows of a message table."""
