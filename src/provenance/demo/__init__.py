"""What ``provenance demo`` shows: a model that samples, a game, datums of it, and ways to break them."""
