"""Text games: TextArena's and Gymnasium's behind one `TextGame`, prompts and moves, codecs, bots and RL envs.

`game` is what the rest of Ludus plays; `arena` and `gymnasium_table` are what it plays on; `catalog` knows which
games there are. `templates` turn a turn into a prompt, `extraction` a completion into a move. `rules`, `codecs`,
`bots` and `env` are the small games a network or a search can play.
"""
