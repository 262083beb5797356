"""Several processes that train one model: who they are, how gradients travel, how they start.

    from anyrig.training.distributed.joining import open_group

    group = open_group("auto", os.environ, device)   # one process is a group of one

`alone` and `processes` and `shards` are the groups, `shares` cuts batches, `launch` starts them.
"""
