"""Mail and news: mboxes, folders of articles, archives of them, to rows of a table of messages; see ``reading``."""
