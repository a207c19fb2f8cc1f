"""Numbered nets: networks that a run exports every `train.export_every` steps, and the user's command for each.

nets/step-000000100.nnue           of step 100; of an ensemble step-000000100.member-0.nnue, ... nets/record.jsonl
the state of each step's nets (`record`) nets/.step-000000100.PID.X.tmp     a net that is being written

The coordinator writes a checkpoint of each such step, and keeps it until the record lists its nets. The supervisor
runs `pool export`, then the command (`train.on_export`), and sends the command's numbers to the coordinator. Free of
torch.
"""
