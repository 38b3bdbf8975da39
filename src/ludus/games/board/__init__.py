"""Small board and card games for networks and search: rules, codecs, bots and one env."""
