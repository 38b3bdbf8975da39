"""Playing the real game through the mod balatrobot, and a stand-in for the game that speaks the same protocol."""
