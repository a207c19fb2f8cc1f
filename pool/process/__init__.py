"""How a process of a run is started, gets its Launch, and ends with the supervisor. Free of torch and of roles."""
