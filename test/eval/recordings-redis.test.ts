import { testRecordings } from './replay-fixture.ts';

// Postgres stores a conversation in the same way for every queue, so a few recordings are enough, without the longest.
testRecordings('redis', /^(airline-0[02]|swe-.*)\.jsonl$/);
