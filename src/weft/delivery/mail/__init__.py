"""Answers by electronic mail: whom they go to, what a letter says, the conversation with the server that takes it."""
