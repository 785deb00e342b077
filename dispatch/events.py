"""Names of the NOTIFY channels. Payloads are hints only: ids, or nothing; every listener also polls."""

POOL = "ef_pool"  #: pool ids that have something to dispatch: new work, demand, freed slots, an edited policy
SESSION = "ef_session"  #: session ids that were offered leases, or whose directives changed
TASK = "ef_task"  #: ids of tasks that reached a final state
LIVE = "ef_live"  #: topics of the console that changed
LAYER = "ef_layer"  #: messages between the channel layers of several web processes
MAX_IDS = 500  #: ids in one payload (8000-byte limit of NOTIFY)
