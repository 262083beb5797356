"""Many items through an engine, on all devices of a machine or of several.

    batching    WorkItem, Batch, BatchQueue, BatchSizer; ItemReader reads the input ahead
    engine      BaseEngine, and EngineFactory: how a worker makes one
    retry       run_batch: a batch is split after out-of-memory, an item that fails is retried;
                run_batches: an engine in this process, no workers
    outcome     ItemOutcome, ItemFailure, RunReport
    pool        WorkerPool: runs items over its workers
    dispatch    DispatchLoop: one run; sends items, takes results, handles workers that die
    scheduler   Scheduler: which worker gets which items next; assignment: all items at once
    failures    FailureTracker: which item or device is at fault when a worker crashes
    worker      LocalWorkers, LocalWorker: processes of this machine; worker_main is the process
    protocol    what a pool and its workers agree on, and their messages
    live        LiveQueue: requests over time, with lanes and deadlines

Names of a worker's sides: `WorkerHandle` is one worker as its pool sees it (`LocalWorker`, or one
of a cluster), `WorkerSource` starts and replaces such workers (`LocalWorkers`, or a cluster's
registry), `WorkerLoad` is what the scheduler knows about one, `WorkerStatus` what a health check
sees. `EngineProcess` runs inside the process.
"""
