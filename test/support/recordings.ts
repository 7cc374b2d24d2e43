import path from 'node:path';

/** Where recorded conversations are, if anywhere: beside the checkout, unless the environment says otherwise. */
export const RECORDINGS_FOLDER =
  process.env['BATON_TEST_TRANSCRIPTS'] ?? path.resolve(import.meta.dirname, '../../../shared/transcripts');
