"""The replay: ``at``, ``starts`` and ``ends``, one function a rule of design section 2."""
