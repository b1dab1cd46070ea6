"""Jobs of every sort from their creation to their end: plain, by schedule, over clusters, with plugins, very large."""
