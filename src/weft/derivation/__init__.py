"""Pure rewriting of algebra: the replay, Q^M, Q^I, and the access paths of a branch."""
