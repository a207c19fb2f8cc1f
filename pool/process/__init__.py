"""How a process of a run comes to be, learns who it is, and ends with the supervisor. Free of torch and of roles."""
