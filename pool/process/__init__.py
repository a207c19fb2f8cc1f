"""How a process of a run is started, gets its settings, and ends with the supervisor. Free of torch and of roles."""
