"""Who sits at a game table, how good each one is, and who plays whom."""
