"""The HTTP API of a home, below ``/api/v1``.

``operation`` says what an operation is.  Each module of ``operations`` has those of one area.  ``endpoints`` makes the
routes of them, ``openapi`` the document, and ``problems`` the errors.
"""
