import { testRecordings } from './replay-fixture.ts';

// Postgres keeps what a conversation comes to, whatever brings the jobs: one of each kind, and those not the longest.
testRecordings('redis', /^(airline-0[02]|swe-.*)\.jsonl$/);
