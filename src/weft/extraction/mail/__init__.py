"""Read mail and news as rows of a message table: mboxes, folders of articles, and archives of them."""
