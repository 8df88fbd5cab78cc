"""Evaluation of synopses: process a batch of states of a log, given the stored relations."""
