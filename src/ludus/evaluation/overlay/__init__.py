"""The panel next to the picture of a video: `data` is its content, `panel` its layout, `ink` draws."""
