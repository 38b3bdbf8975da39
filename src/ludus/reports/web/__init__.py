"""The web dashboard, `ludus ui`: an index of the runs folder, a small server, and plain HTML, CSS and JS."""
