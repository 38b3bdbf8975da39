"""What is drawn beside the picture: `data` says what, `panel` says where, `ink` how."""
