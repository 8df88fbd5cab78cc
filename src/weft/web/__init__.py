"""The page of a home: an HTTP application over one open home, rendered by the server.

``app`` builds the application.  ``visits`` turns a request into a ``Visit`` and its errors into pages.  ``rendering``
fills templates.  ``security`` sets headers and checks where forms come from.  ``serving`` listens.  ``keys`` reads
numbers in addresses.  ``jobs`` runs long operations.  Each module of ``pages`` has the pages of one
area.
"""
