"""The room of notices: who hears of what, in which words, how often it is tried, and where to."""
