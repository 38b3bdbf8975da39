"""Players, matches, ratings and matchmaking, for any game with seats."""
