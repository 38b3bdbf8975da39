"""Balatro: the game's rules as compiled steps over many games at once, and the envs made of them."""
