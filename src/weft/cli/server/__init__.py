"""The local server of ``weft serve``: one process keeps the home open and runs the commands of other terminals.

``address`` locates the server of a home.  ``client`` sends a command to the server.  ``listen`` opens the socket.
``server`` answers requests.  ``run_command`` runs one command.  The result of a command depends on its arguments, its
folder, its environment and its stdin.  The client sends all four, and the server returns the output and the exit code.
"""
