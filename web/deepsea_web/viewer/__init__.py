"""The viewer of games: its script in small modules, the page of one file, pictures of positions."""
