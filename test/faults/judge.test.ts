import { describe, expect, it } from 'vitest';
import { FAULTS } from './catalogue.ts';
import type { Snapshot, StoredMessage } from './check/snapshot.ts';
import { broken, judge, needless, type Observed } from './check/verdict.ts';
import {
  accepted,
  answer,
  asked,
  call,
  cancelled,
  compacted,
  delivery,
  effect,
  events,
  id,
  message,
  messageId,
  observed,
  type Part,
  RUN,
  read,
  receipt,
  resumed,
  SCHEDULE,
  SESSION,
  told,
  user,
  withCall,
} from './observed.ts';

describe('the judge of the fault suite', () => {
  it('finds nothing where all went well', () => {
    expect(broken(judge(observed()))).toEqual([]);
    expect(broken(judge(withCall(call('call-1', 'completed', 'done call-1'), effect('call-1'))))).toEqual([]);
    const answered = asked('approve', call('call-1', 'completed', 'done call-1'), effect('call-1'));
    expect(broken(judge({ ...answered, ...resumed, hits: { kills: 1 } }))).toEqual([]);
    expect(broken(judge(asked('deny', call('call-1', 'denied', 'No.'))))).toEqual([]);
    expect(broken(judge(told({})))).toEqual([]);
    const failed = compacted(['compaction:start', 'compaction:failed'], 'failed');
    expect(broken(judge({ ...failed, read: new Map() }))).toEqual([]);
  });

  it('has nothing against a message that another run took up after a cancel that came as its own was answered', () => {
    const elsewhere = { messages: [{ ...user(1, 'Task message-0-1.'), runId: id(99) }, answer(2, 1)] };
    const late = events().map((event) =>
      event.type === 'run:completed' ? { ...event, data: { ...event.data, lateCancel: true } } : event,
    );
    expect(judge(observed({ ...elsewhere, events: late })).lateSteers).toEqual([]);
  });

  it('has nothing against a request without what its summary stands for, but against one without what came after', () => {
    const summary = message(2, 'user', null, [{ type: 'compaction', text: 'All before.' }]);
    const answered = (text: string): string[] => {
      const messages = [user(1, 'Task message-0-1.'), summary, user(3, 'Task message-0-2.'), answer(4, 2)];
      const requests = [
        { text: 'message-0-1', violations: [] },
        { text, violations: [], answer: 2 },
      ];
      return judge(observed({ messages }, { requests })).lateSteers.slice();
    };
    expect(answered('All before. Task message-0-2.')).toEqual([]);
    expect(answered('All before.')).toEqual(['answer 2 was asked for without message-0-2']);
  });

  it.each<[string, keyof ReturnType<typeof judge>, Observed]>([
    ['a message that is nowhere', 'lostMessages', observed({ messages: [user(1, 'Task.'), answer(2, 1)] })],
    [
      'a message that nobody takes up',
      'lostMessages',
      observed({ messages: [user(1, 'Task.'), answer(2, 1)], waiting: new Set([id(1)]) }),
    ],
    ['a message that the model never saw', 'lostMessages', observed({}, { requests: [] })],
    [
      'a message that is in the inbox and in the transcript',
      'doubledMessages',
      observed({ waiting: new Set([id(1)]) }),
    ],
    [
      'messages in another order',
      'outOfOrder',
      observed(
        { messages: [user(1, 'message-0-2 message-0-1'), answer(2, 1)] },
        { accepted: [accepted(1), accepted(2)], requests: [{ text: 'message-0-1 message-0-2', violations: [] }] },
      ),
    ],
    [
      'a step that began without a steer',
      'lateSteers',
      observed(
        { events: events(['run:started', 'message:queued', 'step:started', 'message:dequeued', 'run:completed']) },
        read([]),
      ),
    ],
    [
      'a message that another run took up than its sender was told',
      'lateSteers',
      observed({ messages: [{ ...user(1, 'Task message-0-1.'), runId: id(99) }, answer(2, 1)] }),
    ],
    [
      'a request without what stands before its answer, whoever else was shown it',
      'lateSteers',
      observed(
        {},
        {
          requests: [
            { text: 'Task message-0-2.', violations: [], answer: 1 },
            { text: 'Task message-0-1.', violations: [], answer: 2 },
          ],
        },
      ),
    ],
    [
      'an effect that happened twice',
      'repeatedTools',
      withCall(call('call-1', 'completed', 'done call-1'), effect('call-1'), effect('call-1')),
    ],
    [
      'a repeatable effect under two keys',
      'repeatedTools',
      withCall(
        call('call-1', 'completed', 'done call-1', 'put'),
        effect('call-1', 'a', 'put'),
        effect('call-1', 'b', 'put'),
      ),
    ],
    ['a call without an outcome', 'lostResults', withCall(call('call-1', 'running', ''), effect('call-1'))],
    [
      'an outcome that is not the one it had',
      'lostResults',
      withCall(call('call-1', 'completed', 'done call-2'), effect('call-1')),
    ],
    ['an outcome without an effect', 'lostResults', withCall(call('call-1', 'completed', 'done call-1'))],
    [
      'an effect that is told as an error',
      'lostResults',
      withCall(call('call-1', 'error', 'it broke'), effect('call-1')),
    ],
    ['an effect of no call', 'lostResults', observed({ effects: [effect('call-9')] })],
    ['a number that the log lacks', 'eventGaps', observed({ events: events().filter(({ seq }) => seq !== 3) })],
    ['a number that a reader missed', 'eventGaps', observed({}, read([1, 2, 4, 5, 6]))],
    ['a number that a reader got twice', 'eventGaps', observed({}, read([1, 2, 2, 3, 4, 5, 6]))],
    [
      'work after the end of its run',
      'outOfOrder',
      observed({ events: events(['run:started', 'run:completed', 'llm:response']) }),
    ],
    [
      'a run that ends twice',
      'outOfOrder',
      observed({ events: events(['run:started', 'run:completed', 'run:completed']) }),
    ],
    [
      'a request that a provider refuses',
      'invalidTranscripts',
      observed({}, { requests: [{ text: 'message-0-1', violations: ['orphan'] }] }),
    ],
    [
      'an answer that is cut off',
      'invalidTranscripts',
      observed({
        messages: [user(1, 'message-0-1'), message(2, 'assistant', 'stop', [{ type: 'text', text: '<answer 1> wo' }])],
      }),
    ],
    [
      'a message of an ended run that has no end',
      'invalidTranscripts',
      observed({ messages: [user(1, 'message-0-1'), answer(2, 1), message(3, 'assistant', null, [])] }),
    ],
    [
      'an answer that is there twice',
      'invalidTranscripts',
      observed({ messages: [user(1, 'message-0-1'), answer(2, 1), answer(3, 1)] }),
    ],
    [
      'a run that never ended',
      'stuck',
      observed({ runs: [{ id: RUN, sessionId: SESSION, kind: 'task', status: 'running', reason: null, error: null }] }),
    ],
    [
      'a run that failed',
      'failedRuns',
      observed({ runs: [{ id: RUN, sessionId: SESSION, kind: 'task', status: 'failed', reason: null, error: null }] }),
    ],
    ['a recovery of nothing', 'needlessRecoveries', observed({}, { needlessRecoveries: ['job_lost'] })],
    [
      'a message that was taken back and is in the transcript',
      'ghostMessages',
      observed({}, { accepted: [{ ...accepted(1), isRemoved: true }] }),
    ],
    [
      'a message that was taken back and still waits',
      'ghostMessages',
      observed(
        { messages: [user(1, 'Task.'), answer(2, 1)], waiting: new Set([id(1)]) },
        { accepted: [{ ...accepted(1), isRemoved: true }], requests: [] },
      ),
    ],
    [
      'what a message said before it was changed',
      'ghostMessages',
      observed({}, { accepted: [{ ...accepted(2), formerTokens: ['message-0-1'] }] }),
    ],
    [
      'a message that is not as it was changed',
      'lostMessages',
      observed({}, { accepted: [{ ...accepted(2), formerTokens: ['message-0-1'] }] }),
    ],
    [
      'a refused message that a summarizer was shown',
      'ghostMessages',
      observed(
        {},
        {
          refused: ['message-0-9'],
          requests: [
            { text: 'Task message-0-1.', violations: [] },
            { text: 'message-0-9', violations: [], isSummary: true },
          ],
        },
      ),
    ],
    [
      'a message that only a summarizer has seen',
      'lostMessages',
      observed({}, { requests: [{ text: 'Task message-0-1.', violations: [], isSummary: true }] }),
    ],
    [
      'a message that the run left behind which was to go on with it',
      'lostMessages',
      observed({ messages: [{ ...user(1, 'Task message-0-1.'), runId: id(99) }, answer(2, 1)] }, resumed),
    ],
    ['a repetition with another answer', 'doubledMessages', observed({}, { wrongReplays: ['message-0-1'] })],
    [
      'a step that began without a message that was made a steer',
      'lateSteers',
      observed(
        {
          events: [
            ...events(['run:started', 'message:queued']),
            {
              sessionId: SESSION,
              seq: 3,
              runId: RUN,
              type: 'message:changed',
              data: { id: messageId(1), delivery: 'steer' },
            },
            { sessionId: SESSION, seq: 4, runId: RUN, type: 'step:started', data: { step: 1 } },
          ],
        },
        { ...read([]), accepted: [{ ...accepted(1, 'followup'), isMoved: true }] },
      ),
    ],
    ['a compaction that nobody closed', 'stuck', compacted(['compaction:start'], 'running')],
    [
      'a session that says it compacts',
      'stuck',
      observed({ sessions: [{ id: SESSION, status: 'idle', eventSeq: 6, messageSeq: 2, isCompacting: true }] }),
    ],
    [
      'a step in the middle of a compaction',
      'outOfOrder',
      compacted(['compaction:start', 'step:started', 'compaction:failed'], 'failed'),
    ],
    ['a compaction that nobody was told of', 'invalidTranscripts', compacted([], 'failed')],
    [
      'a compaction without its summary',
      'invalidTranscripts',
      compacted(['compaction:start', 'compaction:complete'], 'completed'),
    ],
    ['an approved call that did not run', 'ignoredAnswers', asked('approve', call('call-1', 'denied', 'No.'))],
    [
      'a denied call that ran',
      'ignoredAnswers',
      asked('deny', call('call-1', 'completed', 'done call-1'), effect('call-1')),
    ],
    [
      'a call that ran before anybody was asked',
      'ignoredAnswers',
      asked(null, call('call-1', 'completed', 'done call-1'), effect('call-1')),
    ],
    ['an answer that went on to its end after a cancel', 'unheardCancels', observed({}, cancelled(1, 5_000))],
    [
      'a call that began after a cancel',
      'unheardCancels',
      withCall({ ...call('call-1', 'completed', 'done call-1'), startedAfterCancel: true }, effect('call-1')),
    ],
    [
      'a run that an older version took than it asks for',
      'olderVersions',
      observed({ requiredVersions: new Map([[RUN, 2]]) }, { claims: [{ runId: RUN, engine: 1 }] }),
    ],
    ['a step that began while its queue was paused', 'pausedWork', observed({}, { begunWhilePaused: [id(7)] })],
    ['two deliveries of one end of a run', 'doubledDeliveries', told({ deliveries: [delivery(1), delivery(2)] })],
    ['a delivery with other bytes', 'doubledDeliveries', told({ receipts: [receipt(1), receipt(1, { body: 'b' })] })],
    ['a request that no attempt counted', 'doubledDeliveries', told({ receipts: Array(3).fill(receipt(1)) })],
    ['an end that is no delivery', 'lostDeliveries', told({ deliveries: [], receipts: [] })],
    ['a delivery that did not arrive', 'lostDeliveries', told({ receipts: [receipt(1, { status: 503 })] })],
    ['a delivery that is not done', 'lostDeliveries', told({ deliveries: [{ ...delivery(1), state: 'sending' }] })],
    [
      'a private address that was reached',
      'lostDeliveries',
      told({ receipts: [receipt(1), receipt(1, { path: 'private' })] }),
    ],
    ['a schedule that fired twice', 'doubledFires', told({ schedules: [{ ...SCHEDULE, fires: 2 }] })],
    ['a fire with two runs', 'doubledFires', told({ schedules: [{ ...SCHEDULE, runs: 2 }] })],
    ['a schedule that did not fire', 'lostFires', told({ schedules: [{ ...SCHEDULE, fires: 0 }] })],
    ['a fire that nobody heard', 'lostFires', told({ schedules: [{ ...SCHEDULE, content: 'Fire no. 9!' }] })],
    ['a tenant that has most of the slots', 'unfairShares', told({ crowd: { hung: 13, slots: 24 } })],
    [
      'a run that waited behind those of one tenant',
      'unfairShares',
      told({ crowdAtWork: { requests: 12, longestWaitMs: 9_000 } }),
    ],
    ['a row that has not struck', 'missed', observed({}, { hits: { kills: 0 } })],
    ['traffic that broke off', 'missed', observed({}, { missed: ['the traffic broke off'] })],
    ['a process that could not work', 'unready', observed({}, { unready: ['http://127.0.0.1:1 is not ready'] })],
    ['a process that ended by itself', 'crashes', observed({}, { ownEnds: ['worker 1 ended by itself: exit code 7'] })],
  ])('finds %s', (_what, kind, given) => {
    expect(broken(judge(given))).toContain(kind);
  });

  it('has nothing against an answer that ended soon after a cancel, was broken off, or is of another run', () => {
    expect(judge(observed({}, cancelled(1, 500))).unheardCancels).toEqual([]);
    const partly = message(2, 'assistant', 'cancelled', [{ type: 'text', text: '<answer 1> wor' }]);
    const brokenOff = observed({ messages: [user(1, 'Task message-0-1.'), partly] }, cancelled(1, 5_000));
    expect(judge(brokenOff).unheardCancels).toEqual([]);
    expect(judge(observed({}, cancelled(1, 5_000, id(99)))).unheardCancels).toEqual([]);
  });

  it('has nothing against a call that only looks and began before its worker had heard of the cancel', () => {
    const look = withCall({ ...call('call-1', 'completed', 'done call-1', 'peek'), startedAfterCancel: true });
    expect(judge(look).unheardCancels).toEqual([]);
  });

  it('has nothing against a run that the version took which it asks for', () => {
    const newer = observed({ requiredVersions: new Map([[RUN, 2]]) }, { claims: [{ runId: RUN, engine: 2 }] });
    expect(judge(newer).olderVersions).toEqual([]);
  });

  it('finds false deaths where nobody is killed, and has nothing against deaths where somebody may have died', () => {
    const recoveries = ['lease_expired', 'worker_dead', 'job_lost'];
    expect(needless(recoveries, { isHarmless: true }, 1)).toEqual(recoveries);
    expect(needless(recoveries, { killsNobody: true }, 0)).toEqual(['worker_dead']);
    expect(needless(recoveries, { killsNobody: true }, 1)).toEqual([]);
    expect(needless(recoveries, {}, 0)).toEqual([]);
    const rows = FAULTS.filter(({ name }) => ['postgres-cut', 'postgres-restart'].includes(name));
    expect(rows.map((fault) => needless(['worker_dead'], fault, 0))).toEqual([['worker_dead'], ['worker_dead']]);
  });

  it('tells a call of unknown outcome, and does not count it as broken', () => {
    const findings = judge(withCall(call('call-1', 'error', 'The outcome of this call is unknown'), effect('call-1')));
    expect(findings.unknownTools).toEqual(['call-1']);
    expect(broken(findings)).toEqual([]);
  });
});

describe('the judge, where runs may take one step and give a final answer then', () => {
  const limit = { maxSteps: 1, final: 'In the end: ' };
  const final = (seq: number, finishReason: string, ...calls: Part[]): StoredMessage =>
    message(seq, 'assistant', finishReason, [
      { type: 'text', text: `<answer ${seq}> In the end: words </answer ${seq}>` },
      ...calls,
    ]);
  const ended = (answers: readonly StoredMessage[], run: Partial<Snapshot['runs'][number]> = {}): Observed =>
    observed(
      {
        messages: [user(1, 'Task message-0-1.'), ...answers],
        events: events(['message:queued', 'message:dequeued', 'run:started', 'step:started', 'run:incomplete']),
        runs: [
          { id: RUN, sessionId: SESSION, kind: 'task', status: 'incomplete', reason: 'max_steps', error: null, ...run },
        ],
      },
      { limit, read: new Map() },
    );

  it('finds nothing where the run ended with its final answer', () => {
    expect(broken(judge(ended([answer(2, 1), final(3, 'stop')])))).toEqual([]);
  });

  it.each<[string, readonly StoredMessage[], Partial<Snapshot['runs'][number]>?]>([
    ['a run that ended without it', [answer(2, 1)]],
    ['one that gave it twice', [answer(2, 1), final(3, 'stop'), final(4, 'stop')]],
    ['one that gave it too soon', [final(2, 'stop')]],
    ['one that went on after it', [answer(2, 1), final(3, 'stop'), answer(4, 4)]],
    ['one whose final answer was cut off', [answer(2, 1), final(3, 'length')]],
    ['one whose final answer has a call', [answer(2, 1), final(3, 'stop', call('call-1', 'error', 'No.'))]],
    ['one that ended for another reason', [answer(2, 1), final(3, 'stop')], { reason: 'context_exhausted' }],
    ['one that took a step too many', [answer(2, 1), answer(3, 2)], { status: 'completed', reason: null }],
    ['one that was completed with it', [final(2, 'stop')], { status: 'completed', reason: null }],
  ])('finds %s', (_what, answers, run) => {
    expect(broken(judge(ended(answers, run)))).toContain('failedRuns');
  });

  it('finds that no run has reached its limit', () => {
    const free = observed({}, { limit });
    expect(judge(free).failedRuns).toEqual(['no run has reached its limit']);
  });

  it('has nothing against a steer that came before the final answer and was left to the next run', () => {
    const [answered, last] = [answer(2, 1), final(3, 'stop')];
    const log = events(['run:started', 'step:started', 'message:queued', 'step:started', 'run:incomplete']).map(
      (event) => (event.seq === 4 ? { ...event, data: { step: 2, finalAnswerFor: 'max_steps' } } : event),
    );
    const observedRun = ended([answered, last]);
    expect(judge({ ...observedRun, snapshot: { ...observedRun.snapshot, events: log } }).lateSteers).toEqual([]);
  });
});
