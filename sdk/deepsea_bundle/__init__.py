"""What a bot is on disk: bot.toml, limits, digest, zip reader, unpacking."""
