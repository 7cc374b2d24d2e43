import { testRecordings } from './replay-fixture.ts';

testRecordings('postgres');
