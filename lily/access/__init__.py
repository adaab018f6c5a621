"""Who may do what with which data: policies, conditions, masks and the decision itself. Pure."""
