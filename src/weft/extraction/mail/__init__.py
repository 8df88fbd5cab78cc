"""Mail and news (mboxes, folders of articles and archives of them) as rows of a message table."""
