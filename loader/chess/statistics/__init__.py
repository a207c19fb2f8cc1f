"""What files of positions hold, in numbers, as text and in pictures."""
