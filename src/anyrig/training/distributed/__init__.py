"""Several processes that train one model: who they are, how gradients travel, how they start.

    from anyrig.training.distributed.launch import open_group

    group = open_group("auto", os.environ, device)   # one process is a group of one

`group` has the interface and the group of one process, `ddp` and `fsdp` those of several, `launch`
starts them.
"""
