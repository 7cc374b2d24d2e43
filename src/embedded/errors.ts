export type EmbeddedPostgresErrorCode =
  | 'EMBEDDED_POSTGRES_UNSUPPORTED'
  | 'EMBEDDED_POSTGRES_IN_USE'
  | 'EMBEDDED_POSTGRES_DATA_DIR'
  | 'EMBEDDED_POSTGRES_VERSION'
  | 'EMBEDDED_POSTGRES_INIT_FAILED'
  | 'EMBEDDED_POSTGRES_START_FAILED'
  | 'EMBEDDED_POSTGRES_ENDED';

/** The only error type of the embedded database. `code` is stable, the message tells the user the remedy. */
export class EmbeddedPostgresError extends Error {
  override readonly name = 'EmbeddedPostgresError';
  readonly code: EmbeddedPostgresErrorCode;

  constructor(code: EmbeddedPostgresErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}
