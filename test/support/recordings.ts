import path from 'node:path';

/**
 * The folder of recorded conversations: beside the checkout, unless the environment names another. It may be absent.
 */
export const RECORDINGS_FOLDER =
  process.env['BATON_TEST_TRANSCRIPTS'] ?? path.resolve(import.meta.dirname, '../../../shared/transcripts');
