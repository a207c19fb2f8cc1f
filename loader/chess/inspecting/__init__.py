"""`loader inspect` of positions: what a file holds, in numbers, as text and in pictures."""
