"""The use cases that join referee and ladder: submit, admission, rated games, the runner."""
