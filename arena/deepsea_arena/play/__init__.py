"""Games, checks and analyses as they are played: runners, workers, admission."""
