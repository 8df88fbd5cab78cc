"""Who may do what: principals, rights, and the policy that decides.  Nothing here reads a catalog."""
