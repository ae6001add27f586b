"""The page that shows what a run of scenarios printed and what was expected, side by side."""
