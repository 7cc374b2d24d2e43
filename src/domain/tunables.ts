/** Durations and limits that are not configuration, each with what happens beyond it. */

/** Streamed text that is older than this is in Postgres: the most that a crash can cost a reader. */
export const TEXT_DURABLE_WITHIN_MS = 250;

/** Live deltas of one message are joined for this long: fewer messages on the bus, no delay that a person sees. */
export const DELTA_COALESCE_MS = 25;

/** How long a worker owns a run without a heartbeat. After that another one may take it over. */
export const LEASE_DURATION_MS = 30_000;

/** Six heartbeats fit into a lease: five may fail before the run is lost. */
export const HEARTBEAT_INTERVAL_MS = 5_000;

/** A model that has shown no sign of an answer for this long is given up. Reasoning models are silent for minutes. */
export const FIRST_CHUNK_TIMEOUT_MS = 300_000;

/** A stream that has been silent for this long has stalled. */
export const IDLE_CHUNK_TIMEOUT_MS = 120_000;

/** An answer that takes longer than this is given up, however lively its stream is. */
export const STEP_TIMEOUT_MS = 1_800_000;

/** Pending work that nobody claimed for this long gets a new job, unless the queue still has its own. */
export const UNCLAIMED_GRACE_MS = 2_000;

/**
 * A query without an answer for this long is given up, and its connection with it: Postgres, or the way to it, is gone.
 */
export const STORE_ANSWER_WITHIN_MS = 5_000;

/** The first pause before a job tries a write again that Postgres did not take; it doubles up to the cap. */
export const STORE_RETRY_FIRST_MS = 50;
export const STORE_RETRY_CAP_MS = 1_000;

/** Connections of one process that wait for the same lock at most: its pool is for all sessions. */
export const MAX_CONNECTIONS_PER_LOCK = 2;

/** Transactions that wait in the process for their turn to do so, and for how long; more are refused. */
export const MAX_TRANSACTIONS_PER_LOCK = 200;
export const LOCK_TURN_WITHIN_MS = 5_000;

/** How long the end of a process waits for Postgres to take a run back. Then it counts as one whose worker has died. */
export const HAND_BACK_WITHIN_MS = 5_000;

/** How often one sweeper looks for lost work. */
export const SWEEP_INTERVAL_MS = 1_000;

/**
 * How often every worker process looks for workers whose lock is free: together they look some fifteen times a second,
 * until they are so many that each of them does once a second.
 */
export const LIVENESS_CHECK_INTERVAL_MS = { perWorker: 65, min: 150, max: 1_000 };

/**
 * A worker is dead when its lock stays free for this long without a sign of life. Longer than a living one needs to
 * notice the loss of its connection (`LIVENESS_PING_INTERVAL_MS`) and to say that it lives.
 */
export const DEATH_CONFIRMED_AFTER_MS = 600;

/**
 * After so long without the lock and without a sign of life the loss is written down as that worker's alone: what frees
 * all locks frees the witness's at about the same time. The next sign of life takes the word back.
 */
export const LOSS_WITNESSED_AFTER_MS = 250;

/** How often a worker asks whether the connection that holds its lock still stands. */
export const LIVENESS_PING_INTERVAL_MS = 350;

/** How often a worker that has lost its lock gives a sign of life, until it holds another one. */
export const SIGN_OF_LIFE_INTERVAL_MS = 250;

/** What one sweep looks at: a sweep stays short, the next one goes on. */
export const SWEEP_LIMIT = 200;

/** The longest pause between two looks at the same unclaimed run. */
export const SWEEP_BACKOFF_CAP_MS = 5_000;

/** Crashes, hung leases and claims that took too long that one step survives; then its run fails with `resume_limit`. */
export const MAX_RESUMES_PER_STEP = 10;

/** Model steps of a run whose agent names no limit. */
export const DEFAULT_MAX_STEPS = 100;

/** From the limit that ends a run to the end of its final answer, attempts and waits included. */
export const FINAL_ANSWER_WITHIN_MS = 60_000;

/** Tool calls of one batch that run at the same time, where the agent names no limit. */
export const DEFAULT_TOOL_CONCURRENCY = 8;

/** Longest time of a tool call that names no limit of its own. */
export const DEFAULT_TOOL_TIMEOUT_MS = 600_000;

/** Longest time that a tool may take to say whether a call of it needs an approval. */
export const APPROVAL_CHECK_TIMEOUT_MS = 10_000;

/** A tool that still works this long after its signal was aborted is given up; its outcome is unknown. */
export const TOOL_ABORT_GRACE_MS = 5_000;

/**
 * The largest tool output that a view shows of a tool without a limit of its own; of a longer one head and tail are.
 */
export const MAX_TOOL_OUTPUT_CHARS = 120_000;

/** The most of one tool output that is kept, to be read in pages; of a longer one head and tail are. */
export const MAX_KEPT_OUTPUT_CHARS = 5_000_000;

/** Events to a reader while nothing happens: proxies close what is idle, readers notice a dead socket. */
export const SSE_HEARTBEAT_INTERVAL_MS = 5_000;

/** A reader that is this far behind is dropped; it can resume where it was. */
export const SSE_MAX_BUFFERED_BYTES = 1_048_576;

/**
 * JSON values of one request, each entry of a list or object being one: validating them takes the time of whoever else
 * is served by the process.
 */
export const MAX_JSON_VALUES = 50_000;

/** Deeper values are refused: each reader, Postgres too, goes through them level by level. */
export const MAX_JSON_DEPTH = 100;

/** Bodies over this are refused with 413. */
export const MAX_BODY_BYTES = 1_048_576;

/** The same for messages and outputs of clients, which may bring files as base64; larger ones are uploaded first. */
export const MAX_CONTENT_BODY_BYTES = 16_777_216;

/** The largest file: about what providers take of one. */
export const MAX_BLOB_BYTES = 20_971_520;

/** How often a process at most tries whether Postgres takes a write, however often its health is asked for. */
export const WRITE_PROBE_INTERVAL_MS = 5_000;

/** A blob that nothing refers to is kept for this long: time to send the message that it was uploaded for. */
export const UNREFERENCED_BLOB_KEPT_MS = 86_400_000;

/** How often every worker process looks for blobs that nothing refers to. */
export const BLOB_COLLECTION_INTERVAL_MS = 3_600_000;

/** Characters of one user message. */
export const MAX_MESSAGE_CHARS = 500_000;

/** Characters of the reason for a denial, which the model reads. */
export const MAX_DENIAL_REASON_CHARS = 2_000;

/** What may wait in the inbox of one session, where no setting says otherwise. */
export const DEFAULT_INBOX_MESSAGES = 100;
export const DEFAULT_INBOX_BYTES = 4_194_304;

/** What one step takes up of an inbox, and at least one message: the rest waits for the next step. */
export const MAX_TAKEN_UP_MESSAGES = 100;
export const MAX_TAKEN_UP_BYTES = 1_048_576;

/** The largest content that events and snapshots repeat. Of a larger one they say how large it is and where it is read. */
export const MAX_INLINE_CONTENT_BYTES = 16_384;

/** Messages of a view, that of a session's next request, which one statement reads. */
export const VIEW_PAGE_MESSAGES = 2_000;

/** Content that one page of a list brings: a page ends before its limit of entries where they are large. */
export const MAX_PAGE_CONTENT_BYTES = 4_194_304;

/** Texts and files that one user message, or one output of a client, may be made of. */
export const MAX_MESSAGE_PARTS = 256;

/** Files among them. */
export const MAX_MESSAGE_FILES = 32;

/**
 * Messages that a client of OpenAI's API may send, and calls in one of them: each is work for
 * the process that reads it.
 */
export const MAX_CONVERSATION_MESSAGES = 10_000;
export const MAX_CALLS_PER_MESSAGE = 1_000;

/** What a worker keeps of views, so that the next step of a session need not read all of it: some 64 MB in memory. */
export const VIEW_CACHE_MAX_CHARS = 33_554_432;

/** The version of the job protocol. A run that requires a newer one is left to newer workers. */
export const ENGINE_VERSION = 1;

/** How long the answer to a request with an `Idempotency-Key` is kept for its repetition. */
export const IDEMPOTENCY_KEPT_MS = 86_400_000;

/**
 * How long a client of OpenAI's API that waits for a whole answer may be gone before its run is cancelled:
 * it tries again by itself.
 */
export const CLIENT_RETURNS_WITHIN_MS = 3_000;

/** A request that says that it is an earlier one once more is told the answer to that one, this long after its end. */
export const REPEATED_WITHIN_MS = 60_000;

/** Tools of one MCP server that a session takes, and what their definitions may take of its row: more is refused. */
export const MAX_SERVER_TOOLS = 500;
export const MAX_SERVER_DEFINITION_BYTES = 262_144;

/**
 * What commands of `bash` and MCP servers over stdio may use on Linux: processes and threads at a time, where they can be
 * counted; memory of one process; bytes of one file.
 */
export const COMMAND_LIMITS = { processes: 1_024, memoryBytes: 4 * 1024 ** 3, fileBytes: 4 * 1024 ** 3 };
