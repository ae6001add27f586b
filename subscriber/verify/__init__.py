"""Are the publisher's tables and the target's equal, row by row?"""
