"""The local door of ``weft serve``: commands that are typed elsewhere are run by the process that keeps the home open.

``place`` says where the door is, ``client`` is the side of the one who types, ``performing`` runs one command,
``server`` opens the door.  A command is a function of its arguments, its folder, its environment and what it reads; the
door takes these and gives what the command prints, and its exit code.
"""
