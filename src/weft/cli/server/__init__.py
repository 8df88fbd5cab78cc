"""The local server of ``weft serve``: one process keeps the home open and runs the commands typed in other terminals.

``address`` locates the server of a home, ``client`` sends it a command, ``listen`` opens its socket, ``server`` answers
requests, and ``run_command`` runs one command.  A command is a function of its arguments, its folder, its environment
and its stdin; the client sends these, and the server returns the output and the exit code.
"""
