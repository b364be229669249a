"""Ratings: TrueSkill as a fold over stored games, forecasts."""
