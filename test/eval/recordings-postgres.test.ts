import { testEveryRecording } from './replay-fixture.ts';

testEveryRecording('postgres');
