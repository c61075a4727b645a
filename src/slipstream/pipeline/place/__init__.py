"""Where the rows live when their batch comes."""
