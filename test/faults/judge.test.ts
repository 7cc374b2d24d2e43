import { describe, expect, it } from 'vitest';
import { FAULTS } from './catalogue.ts';
import type { AcceptedMessage } from './check/messages.ts';
import type { Snapshot, StoredMessage, StoredPart } from './check/snapshot.ts';
import { broken, judge, needless, type Observed } from './check/verdict.ts';

const SESSION = '00000000-0000-0000-0000-00000000000a';
const RUN = '00000000-0000-0000-0000-00000000000b';
const id = (no: number): string => `00000000-0000-0000-0000-${String(no).padStart(12, '0')}`;
const messageId = (no: number): string => `msg_${id(no).replaceAll('-', '')}`;

const user = (seq: number, text: string): StoredMessage => message(seq, 'user', null, [{ type: 'text', text }]);
const answer = (seq: number, no: number, ...calls: Part[]): StoredMessage =>
  message(seq, 'assistant', calls.length === 0 ? 'stop' : 'tool-calls', [
    { type: 'text', text: `<answer ${no}> words </answer ${no}>` },
    ...calls,
  ]);

type Part = StoredPart & { state?: string };

function message(seq: number, role: StoredMessage['role'], finishReason: string | null, parts: Part[]): StoredMessage {
  return {
    id: id(100 + seq),
    sessionId: SESSION,
    seq,
    role,
    runId: RUN,
    stepNo: 1,
    finishReason,
    superseded: false,
    parts: parts.map(({ state = null, ...content }) => ({ content, state })),
  };
}

const call = (token: string, state: string, value: string, toolName = 'append'): Part => ({
  type: 'tool',
  toolName,
  input: { token },
  output: { type: 'text', value },
  state,
});

const effect = (token: string, callKey = 'key', tool = 'append') => ({ tool, token, callKey });

const accepted = (no: number, delivery: AcceptedMessage['delivery'] = 'steer'): AcceptedMessage => ({
  sessionId: `ses_${SESSION.replaceAll('-', '')}`,
  messageId: messageId(no),
  runId: `run_${RUN.replaceAll('-', '')}`,
  token: `message-0-${no}`,
  delivery,
});

const EVENT_TYPES = [
  'message:queued',
  'message:dequeued',
  'run:started',
  'step:started',
  'llm:response',
  'run:completed',
];
const events = (types: readonly string[] = EVENT_TYPES): Snapshot['events'] =>
  types.map((type, index) => ({
    sessionId: SESSION,
    seq: index + 1,
    runId: RUN,
    type,
    data: { id: messageId(1), ids: [messageId(1)], step: 1 },
  }));

/** What a session leaves in which all went well, changed by what a test says. */
function observed(changes: Partial<Snapshot> = {}, others: Partial<Observed> = {}): Observed {
  const messages = changes.messages ?? [user(1, 'Task message-0-1.'), answer(2, 1)];
  const log = changes.events ?? events();
  return {
    snapshot: {
      sessions: [{ id: SESSION, status: 'idle', eventSeq: log.length, messageSeq: messages.length }],
      runs: [{ id: RUN, sessionId: SESSION, kind: 'task', status: 'completed', reason: null, error: null }],
      messages,
      events: log,
      waiting: new Set(),
      effects: [],
      ...changes,
    },
    accepted: [accepted(1)],
    requests: [{ text: 'Task message-0-1.', violations: [] }],
    read: new Map([[`ses_${SESSION.replaceAll('-', '')}`, log]]),
    needlessRecoveries: [],
    ownEnds: [],
    ...others,
  };
}

const withCall = (part: Part, ...effects: ReturnType<typeof effect>[]): Observed =>
  observed({ messages: [user(1, 'Task message-0-1.'), answer(2, 1, part), answer(3, 2)], effects });

const read = (seqs: readonly number[]): Partial<Observed> => ({
  read: new Map([
    [`ses_${SESSION.replaceAll('-', '')}`, seqs.map((seq) => ({ seq, type: EVENT_TYPES[seq - 1] ?? '' }))],
  ]),
});

describe('the judge of the fault suite', () => {
  it('finds nothing where all went well', () => {
    expect(broken(judge(observed()))).toEqual([]);
    expect(broken(judge(withCall(call('call-1', 'completed', 'done call-1'), effect('call-1'))))).toEqual([]);
  });

  it('has nothing against a message that another run took up after a cancel that came as its own was answered', () => {
    const elsewhere = { messages: [{ ...user(1, 'Task message-0-1.'), runId: id(99) }, answer(2, 1)] };
    const late = events().map((event) =>
      event.type === 'run:completed' ? { ...event, data: { ...event.data, lateCancel: true } } : event,
    );
    expect(judge(observed({ ...elsewhere, events: late })).lateSteers).toEqual([]);
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
    ['a process that ended by itself', 'crashes', observed({}, { ownEnds: ['worker 1 ended by itself: exit code 7'] })],
  ])('finds %s', (_what, kind, given) => {
    expect(broken(judge(given))).toContain(kind);
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
