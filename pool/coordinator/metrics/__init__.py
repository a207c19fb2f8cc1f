"""What a run says of itself: numbers made once a step, and the sinks that they go to."""
