"""Numbered nets: what a run exports each `train.export_every` steps, and the user's command that is run with each.

nets/step-000000100.nnue           of step 100; of an ensemble step-000000100.member-0.nnue, ...
nets/record.jsonl                  the state of each step's nets (`record`)
nets/.step-000000100.PID.X.tmp     being written

The coordinator writes a checkpoint of each such step, and keeps it until the record has its nets. The supervisor runs
`pool export`, then the command (`train.on_export`), and hands the command's numbers to the coordinator. Free of torch.
"""
