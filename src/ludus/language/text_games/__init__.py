"""Text games: TextArena's and Gymnasium's behind one `TextGame`, prompts and moves.

`game` is what the rest of Ludus plays; `arena` and `gymnasium_table` are the libraries behind it; `catalog` lists the
games. `templates` make a prompt of a turn, `extraction` a move of a completion.
"""
