/** Durations and limits that are no settings, and the defaults of some that are (`src/platform/config.ts`). */

/** Streamed text that is older than this is in Postgres. A reader loses no more by a crash. */
export const TEXT_DURABLE_WITHIN_MS = 250;

/** Live deltas of a message are joined for this long: fewer messages on the bus, no visible delay. */
export const DELTA_COALESCE_MS = 25;

/** After this time without a heartbeat another worker may take over the run. */
export const LEASE_DURATION_MS = 30_000;

/** Six heartbeats fit into a lease: five may fail. */
export const HEARTBEAT_INTERVAL_MS = 5_000;

/** The longest silence before a model's first chunk. Reasoning models are silent for minutes. */
export const FIRST_CHUNK_TIMEOUT_MS = 300_000;

/** A stream that is silent for this long has stalled. */
export const IDLE_CHUNK_TIMEOUT_MS = 120_000;

/** Longest time for a model's answer, even if its stream never falls silent. */
export const STEP_TIMEOUT_MS = 1_800_000;

/** How often a process asks whether Postgres has gone back in time, besides on each new connection. */
export const HISTORY_READ_INTERVAL_MS = 1_000;

/** Numbers of jobs of one run that a lost history of Postgres may have used. */
export const DISPATCHES_LEFT_OUT = 1_000;

/** Pending work that no worker claimed for this long gets a new job, unless the queue still has its own. */
export const UNCLAIMED_GRACE_MS = 2_000;

/** A login of the console lasts for a day of work. */
export const CONSOLE_LOGIN_LASTS_MS = 12 * 3_600_000;

/** Logins of one key at the same time. A further one ends the oldest. */
export const MAX_LOGINS_PER_KEY = 20;

/** Time for the program's own `authenticate`. It holds the request meanwhile. */
export const AUTHENTICATE_WITHIN_MS = 10_000;

/** Longest name of a tenant that a program gives. Those of keys are shorter. */
export const MAX_TENANT_ID_CHARS = 200;

/** Characters of a message's texts whose words are indexed for searches. */
export const INDEXED_CHARS = 10_000;

/** Stretches of 2^n seconds, from nine minutes to half a year, that a search asks the index for. Those of `baton_index_words`. */
export const WORD_WINDOW_BITS = [9, 12, 15, 18, 21, 24] as const;

/** A query without an answer for this long is given up with its connection: Postgres or the network is gone. */
export const STORE_ANSWER_WITHIN_MS = 5_000;

/** The first pause before a job repeats a write that Postgres did not answer. It doubles up to the cap. */
export const STORE_RETRY_FIRST_MS = 50;
export const STORE_RETRY_CAP_MS = 1_000;

/** Connections of a process that may wait for one lock: its pool is for all sessions. */
export const MAX_CONNECTIONS_PER_LOCK = 2;

/** Transactions of a process that may wait in memory for such a place, and for how long. More are refused. */
export const MAX_TRANSACTIONS_PER_LOCK = 200;
export const LOCK_QUEUE_WITHIN_MS = 5_000;

/** An ending process tries to hand back a run for this long. Afterwards the run counts as one of a dead worker. */
export const HAND_BACK_WITHIN_MS = 5_000;

/** Pause between two looks of a reconciler for lost work. */
export const SWEEP_INTERVAL_MS = 1_000;

/**
 * Pauses between the looks of a worker process for free locks. Together all processes look some fifteen times a second,
 * and each at least once.
 */
export const LIVENESS_CHECK_INTERVAL_MS = { perWorker: 65, min: 150, max: 1_000 };

/**
 * A worker is dead when its lock stays free for this long without a sign of life. A living worker needs less time to
 * notice its lost connection (`LIVENESS_PING_INTERVAL_MS`) and to report.
 */
export const DEATH_CONFIRMED_AFTER_MS = 600;

/**
 * A lock that is free for this long is recorded as lost alone: an outage would have freed the watcher's own lock, too.
 * The worker's next sign of life clears the record.
 */
export const LOSS_WITNESSED_AFTER_MS = 250;

/** Interval at which a worker checks the connection that holds its lock. */
export const LIVENESS_PING_INTERVAL_MS = 350;

/** Interval at which a worker that has lost its lock gives a sign of life, until it holds another one. */
export const SIGN_OF_LIFE_INTERVAL_MS = 250;

/**
 * Time for an MCP server to list its tools to a fire or a child, which nobody waits for. A server over stdio has longer
 * until it has listed them once, because its program may have to be fetched first.
 */
export const PIN_WITHIN_MS = 2_000;

/** Fires and children of a process that wait for MCP servers: they hold memory alone. */
export const PINS = { atOnce: 1_024, perTenant: 16 };

/** Fires of a process that have a transaction, and those that it has in hand. */
export const FIRES = { atOnce: 4, perTenant: 2, inHand: 1_024, inHandPerTenant: 32 };

/** Children of a process that have a transaction, and those that it has in hand: of a tenant enough for a wide tree. */
export const CHILDREN = { atOnce: 8, perTenant: 4, inHand: 1_024, inHandPerTenant: 128 };

/** No worker looked at schedules for this long: those that were due meanwhile are missed. */
export const SCHEDULES_UNWATCHED_AFTER_MS = 60_000;

/** A look at schedules is noted this often. */
export const SCHEDULE_LOOK_NOTED_EVERY_MS = 5_000;

/** The most rows that a sweep handles, so that it stays short. The next sweep goes on. */
export const SWEEP_LIMIT = 200;

/** The longest pause between two looks at the same unclaimed run. */
export const SWEEP_BACKOFF_CAP_MS = 5_000;

/** Crashes, hung leases and slow claims that a step survives. Then its run fails with `resume_limit`. */
export const MAX_RESUMES_PER_STEP = 10;

/** Interval at which a worker looks for deliveries to webhooks that are due. */
export const DISPATCH_INTERVAL_MS = 500;

/** Deliveries sent to one endpoint at the same time. */
export const DELIVERIES_PER_ENDPOINT = 8;

/** Deliveries of a tenant that are sent at the same time to all its endpoints that did not answer last time. */
export const DELIVERIES_TO_SILENT_ENDPOINTS = 8;

/** Endpoints of a tenant that one look goes through: more than it may have webhooks. The next look goes on. */
export const DELIVERY_ENDPOINTS_PER_LOOK = 100;

/** A delivery that the queue has had for this long without a worker is given to it again. */
export const DELIVERY_UNCLAIMED_AFTER_MS = 5_000;

/** Time limit for the answer of a receiver of a webhook. */
export const DELIVERY_TIMEOUT_MS = 10_000;

/** A delivery without an outcome for this long is sent again: its worker is gone. */
export const DELIVERY_LOST_AFTER_MS = 30_000;

/** Ended deliveries of an endpoint that are kept, to be read and sent again. */
export const MAX_KEPT_DELIVERIES = 1_000;

/** Steps of a run whose agent names no limit. */
export const DEFAULT_MAX_STEPS = 100;

/** Time from the limit to the end of the final answer, with its attempts and waits. */
export const FINAL_ANSWER_WITHIN_MS = 60_000;

/** Tool calls of one batch that run at the same time, if the agent names no limit. */
export const DEFAULT_TOOL_CONCURRENCY = 8;

/** Time limit of a tool that names none of its own. */
export const DEFAULT_TOOL_TIMEOUT_MS = 600_000;

/** Time limit for a tool to decide whether a call needs an approval. */
export const APPROVAL_CHECK_TIMEOUT_MS = 10_000;

/** A tool that still works this long after its abort is given up. Its outcome is unknown. */
export const TOOL_ABORT_GRACE_MS = 5_000;

/** The largest tool output in a view, unless the tool has its own limit. A view has head and tail of a longer one. */
export const MAX_TOOL_OUTPUT_CHARS = 120_000;

/** The largest tool output that is kept, to be read in pages. Only head and tail of a longer one are kept. */
export const MAX_KEPT_OUTPUT_CHARS = 5_000_000;

/** Interval at which an idle reader gets an event: proxies close idle connections, and readers notice a dead socket. */
export const SSE_HEARTBEAT_INTERVAL_MS = 5_000;

/** A reader that is this far behind is dropped. It can resume where it was. */
export const SSE_MAX_BUFFERED_BYTES = 1_048_576;

/** JSON values of one request, counting each entry of a list or object: validating them blocks the process. */
export const MAX_JSON_VALUES = 50_000;

/** Deeper values are refused: each reader, Postgres too, descends level by level. */
export const MAX_JSON_DEPTH = 100;

/** The largest body with instructions or texts of people. Larger bodies are refused with 413. */
export const MAX_BODY_BYTES = 1_048_576;

/** The largest body with messages or outputs, which may contain files as base64. Larger files are uploaded first. */
export const MAX_CONTENT_BODY_BYTES = 16_777_216;

/** About the largest file that providers take. */
export const MAX_BLOB_BYTES = 20_971_520;

/** Most bytes of a form around its file: boundaries and headers. */
export const FORM_BYTES = 4_096;

/** The largest body of a route that names no limit, because it takes a few short fields; and of a login: a key. */
export const MAX_SMALL_BODY_BYTES = 65_536;
export const MAX_LOGIN_BODY_BYTES = 1_024;

/** The largest body of a hook that names no limit of its own. */
export const DEFAULT_HOOK_BODY_BYTES = 262_144;

/**
 * Bodies that a process holds at the same time, in bytes: a part of its heap between two bounds, unless a setting says
 * it. A text of two bytes a character, its parsed values and their text for Postgres take six times a body's bytes.
 */
export const BODIES_PER_HEAP = 1 / 8;
export const MIN_BODIES_BYTES = 33_554_432;
export const MAX_BODIES_BYTES = 268_435_456;

/** The part of them that one tenant may take, but at least one body of any size. */
export const TENANT_BODIES_SHARE = 1 / 4;

/** Bodies of callers who have shown no key, besides those of tenants: of all, and of one address. */
export const STRANGERS_BODIES_BYTES = 4_194_304;
export const STRANGER_BODIES_BYTES = 1_048_576;

/**
 * Bytes of answers that clients have not taken, which a process holds at the same time: a part of its heap between two
 * bounds. One sender of requests has a part of them, but at least one answer of any size.
 */
export const ANSWERS_PER_HEAP = 1 / 8;
export const MIN_ANSWERS_BYTES = 33_554_432;
export const MAX_ANSWERS_BYTES = 268_435_456;
export const CLIENT_ANSWERS_SHARE = 1 / 4;

/**
 * A client that takes nothing of a complete answer, or of a stream's full buffer, for this long is gone. Linux asks for
 * more only when a third of its own buffer is free, which on a fast network holds up to 4 MB: seconds of a slow reader.
 */
export const ANSWER_STALL_LIMIT_MS = 30_000;

/** The largest result of an HTTP tool, and the largest message of an MCP server. */
export const MAX_RESULT_BYTES = 16_777_216;

/**
 * Bytes of tools' results that a process holds until they are stored: a part of its heap between two bounds. One tenant
 * has a part of them, but at least one result of any size. A result that is no larger than the free ones needs no room.
 */
export const ARRIVING_PER_HEAP = 1 / 8;
export const MIN_ARRIVING_BYTES = 33_554_432;
export const MAX_ARRIVING_BYTES = 268_435_456;
export const TENANT_ARRIVING_SHARE = 1 / 4;
export const FREE_RESULT_BYTES = 65_536;

/**
 * Characters of models' answers that a process holds until they are whole, and of events that have not ended: a part of
 * its heap between two bounds, and the most of one answer or event. One that is no larger than the free ones needs no room.
 */
export const PIECES_PER_HEAP = 1 / 8;
export const MIN_PIECES_CHARS = 67_108_864;
export const MAX_PIECES_CHARS = 268_435_456;
export const MAX_PIECE_CHARS = 67_108_864;
export const FREE_PIECE_CHARS = 1_048_576;

/**
 * The last part of the streams and waits that a process holds open is for tenants that have a small part of all: a tenant
 * with many keys cannot take the others' places.
 */
export const STREAMS_LEFT_TO_OTHERS = 1 / 4;
export const SMALL_TENANT_STREAMS = 1 / 8;

/** What the smallest body counts as: what a process holds of a request besides. */
export const MIN_BODY_CHARGE_BYTES = 4_096;

/** A sender that takes longer for this many bytes gives way to other bodies, if there is no room for these. */
export const STALLED_BODY_BYTES = 8_192;
export const STALLED_BODY_AFTER_MS = 1_000;

/** Requests that the API begins per round of the event loop. Further ones wait, each sender's apart. */
export const LET_IN_PER_ROUND = 4;

/** Most requests that wait so, of all senders, and of those without a key at one address. */
export const MAX_WAITING_AT_THE_DOOR = 4_096;
export const MAX_STRANGERS_IN_LINE = 256;

/** So much of a credential tells senders apart: more than a key of Baton has. */
export const SENDER_NAME_CHARS = 256;

/** The shortest time between two test writes to Postgres, even if health is requested more often. */
export const WRITE_PROBE_INTERVAL_MS = 5_000;

/** A blob without a reference is kept for this long: time to send the message that it is for. */
export const UNREFERENCED_BLOB_KEPT_MS = 86_400_000;

/** Interval at which each worker process looks for blobs without a reference. */
export const BLOB_COLLECTION_INTERVAL_MS = 3_600_000;

/** Files of a tenant that one look for unreferenced ones goes through. */
export const BLOB_PAGE = 1_000;

export const MAX_MESSAGE_CHARS = 500_000;

/** The model reads the reason. */
export const MAX_DENIAL_REASON_CHARS = 2_000;

/** Limits of the queued messages of one session, if no setting names others. */
export const DEFAULT_INBOX_MESSAGES = 100;
export const DEFAULT_INBOX_BYTES = 4_194_304;

/** The largest content in events and snapshots. Larger content is replaced by its size and its path. */
export const MAX_INLINE_CONTENT_BYTES = 16_384;

/** Content of one page of a list. A page of large entries ends before its limit of entries. */
export const MAX_PAGE_CONTENT_BYTES = 4_194_304;

/** Texts and files of one user message, or of one output of a client. */
export const MAX_MESSAGE_PARTS = 256;

export const MAX_MESSAGE_FILES = 32;

/** Messages of one request of OpenAI's API, and calls in one of them: each costs the process time. */
export const MAX_CONVERSATION_MESSAGES = 10_000;
export const MAX_CALLS_PER_MESSAGE = 1_000;

/** How often a client with a WebSocket is asked whether it is there. One that has not answered by then is gone. */
export const SOCKET_PING_INTERVAL_MS = 30_000;

/** The text of an item that carries a compacted conversation: as base64, with its files. */
export const MAX_COMPACTION_CHARS = 8_388_608;
/** Files in one such item. Older ones become texts with their names. */
export const MAX_COMPACTION_FILE_BYTES = 2_097_152;
/** The session in which a conversation was compacted is needed no more, and remains for whoever looks into a failure. */
export const COMPACTION_KEPT_MS = 86_400_000;

/** The views that a worker keeps for the next steps of its sessions: about 64 MB in memory. */
export const VIEW_CACHE_MAX_CHARS = 33_554_432;

/** Steps in a row that a run gets without the queue while the worker takes as many jobs as it may. */
export const CARRIED_IN_A_ROW = 8;

/** Pause between two looks of a worker whose slots are all taken for work of tenants that have few of them. */
export const EXTRA_SLOTS_INTERVAL_MS = 250;

/** Work that has been due for less is left to the queue. */
export const EXTRA_SLOTS_AFTER_MS = 100;

/** Interval at which a worker that goes on without the queue asks whether the queue is paused. */
export const PAUSE_CHECK_INTERVAL_MS = 500;

/** After this time without an answer, such a worker takes the queue for paused. */
export const PAUSE_ANSWER_HOLDS_MS = 2 * PAUSE_CHECK_INTERVAL_MS;

/** Outcomes of steps that are kept until their jobs come and become their records. */
export const CARRIED_OUTCOMES_KEPT = 1_000;

/** The version of the job protocol. A run that requires a newer one is left to newer workers. */
export const ENGINE_VERSION = 1;

/** The answer to an `Idempotency-Key` is kept for this long, for a repeated request. */
export const IDEMPOTENCY_KEPT_MS = 86_400_000;

/**
 * A retry by OpenAI's libraries gets the same answer for this long after the end of its run. The libraries send no
 * `Idempotency-Key`.
 */
export const REPEATED_WITHIN_MS = 60_000;

/** Tools of one MCP server, and bytes of their definitions in a session's row. More are refused. */
export const MAX_SERVER_TOOLS = 500;
export const MAX_SERVER_DEFINITION_BYTES = 262_144;

/**
 * Limits for commands of `bash` and MCP servers over stdio on Linux: processes and threads (where they can be counted),
 * memory of one process, bytes of one file.
 */
export const COMMAND_LIMITS = { processes: 1_024, memoryBytes: 4 * 1024 ** 3, fileBytes: 4 * 1024 ** 3 };

/** A schema that answers have to fit. It is part of every request. */
export const MAX_OUTPUT_SCHEMA_BYTES = 32_768;
export const MAX_OUTPUT_SCHEMA_LEVELS = 32;

/** Time limit for the check of an answer against its schema. */
export const OUTPUT_CHECK_TIMEOUT_MS = 5_000;
