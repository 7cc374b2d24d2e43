/** Options of every method. An abort rejects with the reason of the signal. */
export type CallOptions = Readonly<{ signal?: AbortSignal | undefined }>;

/** A request with the same key within a day gets the first answer again. Default: a new key for each call. */
export type KeyedOptions = CallOptions & Readonly<{ idempotencyKey?: string | undefined }>;
