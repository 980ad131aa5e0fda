"""The game: boards, rules, scoring and symmetries. Imports nothing else of gozero."""
