"""Shows runs on a page in the browser (`pool watch`): what their folders hold, live or as a file to send.

It is a process of its own that reads run folders and writes nothing there. Free of torch.
"""
