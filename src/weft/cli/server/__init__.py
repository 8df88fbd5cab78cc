"""The local server of ``weft serve``: one process keeps the home open and runs the commands of other terminals.

``address`` locates the server of a home.  ``client`` sends a command to the server.  ``listen`` opens the socket.
``server`` answers requests.  ``run_command`` runs one command.  The client sends the arguments, the folder, the
environment and the stdin of a command.  The server returns the output and the exit code.
"""
