"""A page in the browser that shows runs (`pool watch`): what their folders hold, now or as a file to send.

It runs in a process of its own, which reads run folders and writes nothing there. Free of torch.
"""
