"""Read mboxes, folders of articles, and archives of mail and news as rows of a message table."""
