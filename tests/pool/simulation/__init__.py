"""A whole run without processes: the real decisions of coordinator, feeder and workers, and the real rules for
messages, under one seeded scheduler that kills, freezes, loses, repeats and delays.

`world` moves the processes (`supervisor`, `coordinator`, `feeder`, `worker`) over `memory` and `network`; `history`
says what must hold, in the numbers of `arithmetic`. A run is a function of its seed (`setup`).
"""
