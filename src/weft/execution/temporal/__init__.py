"""Execution of temporal views: compute the changes of views from the logs of the tables that they read, and record
them.
"""
