"""Defines the messages that processes of a run send each other, encodes them, and connects the processes by sockets."""
