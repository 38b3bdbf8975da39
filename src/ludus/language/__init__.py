"""Language self-play: text games, models, samplers, learners and the trainer."""
