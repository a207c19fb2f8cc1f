"""Numbered nets: what a run exports each `train.export_every` steps, and the user's command that is run with each.

nets/step-000000100.nnue           of step 100; of an ensemble step-000000100.member-0.nnue, ...
nets/record.jsonl                  how far each step's nets are (`record`)
nets/.step-000000100.PID.X.tmp     being written

The coordinator sees to a checkpoint of each such step, and keeps it until the record has it; the supervisor has
`export` run in a process of its own, then the command (`train.on_export`), and hands the command's numbers to the
coordinator. `plan` decides what is next. Free of torch, but for `export`.
"""
