"""A bot's files on disk: bot.toml, limits, digest, zip reader, unpacking."""
