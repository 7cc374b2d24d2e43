import { type Edges, NO_EDGES, type Receipt, type StoredDelivery, type StoredSchedule } from './check/deliveries.ts';
import type { AcceptedMessage } from './check/messages.ts';
import type { Effect, Snapshot, StoredMessage, StoredPart } from './check/snapshot.ts';
import type { Observed } from './check/verdict.ts';

// Made-up records of sessions, for the tests of the judge.

export const SESSION = '00000000-0000-0000-0000-00000000000a';
export const RUN = '00000000-0000-0000-0000-00000000000b';
export const id = (no: number): string => `00000000-0000-0000-0000-${String(no).padStart(12, '0')}`;
export const messageId = (no: number): string => `msg_${id(no).replaceAll('-', '')}`;

export const user = (seq: number, text: string): StoredMessage => message(seq, 'user', null, [{ type: 'text', text }]);
export const answer = (seq: number, no: number, ...calls: Part[]): StoredMessage =>
  message(seq, 'assistant', calls.length === 0 ? 'stop' : 'tool-calls', [
    { type: 'text', text: `<answer ${no}> words </answer ${no}>` },
    ...calls,
  ]);

export type Part = StoredPart & { state?: string; startedAfterCancel?: boolean };

export function message(
  seq: number,
  role: StoredMessage['role'],
  finishReason: string | null,
  parts: Part[],
): StoredMessage {
  return {
    id: id(100 + seq),
    sessionId: SESSION,
    seq,
    role,
    runId: RUN,
    stepNo: 1,
    finishReason,
    superseded: false,
    isSummary: false,
    parts: parts.map(({ state = null, startedAfterCancel = false, ...content }) => ({
      content,
      state,
      startedAfterCancel,
    })),
  };
}

export const call = (token: string, state: string, value: string, toolName = 'append'): Part => ({
  type: 'tool',
  toolName,
  input: { token },
  output: { type: 'text', value },
  state,
});

export const effect = (token: string, callKey = 'key', tool = 'append') => ({ tool, token, callKey });

export const accepted = (no: number, delivery: AcceptedMessage['delivery'] = 'steer'): AcceptedMessage => ({
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
export const events = (types: readonly string[] = EVENT_TYPES): Snapshot['events'] =>
  types.map((type, index) => ({
    sessionId: SESSION,
    seq: index + 1,
    runId: RUN,
    type,
    data: { id: messageId(1), ids: [messageId(1)], step: 1 },
  }));

/** The records of a session in which all went well, with the changes of a test. */
export function observed(changes: Partial<Snapshot> = {}, others: Partial<Observed> = {}): Observed {
  const messages = changes.messages ?? [user(1, 'Task message-0-1.'), answer(2, 1)];
  const log = changes.events ?? events();
  return {
    snapshot: {
      sessions: [
        { id: SESSION, status: 'idle', eventSeq: log.length, messageSeq: messages.length, isCompacting: false },
      ],
      runs: [{ id: RUN, sessionId: SESSION, kind: 'task', status: 'completed', reason: null, error: null }],
      messages,
      events: log,
      waiting: new Set(),
      effects: [],
      compactions: [],
      children: [],
      requiredVersions: new Map(),
      ...changes,
    },
    accepted: [accepted(1)],
    requests: [{ text: 'Task message-0-1.', violations: [] }],
    cancels: [],
    claims: [],
    read: new Map([[`ses_${SESSION.replaceAll('-', '')}`, log]]),
    losses: [],
    standing: [],
    needlessRecoveries: [],
    unready: [],
    ownEnds: [],
    hits: {},
    missed: [],
    edges: NO_EDGES,
    stopsWithinMs: 3_000,
    refused: [],
    wrongReplays: [],
    begunWhilePaused: [],
    resumptions: [],
    ...others,
  };
}

export const withCall = (part: Part, ...effects: Effect[]): Observed =>
  observed({ messages: [user(1, 'Task message-0-1.'), answer(2, 1, part), answer(3, 2)], effects });

export const read = (seqs: readonly number[]): Partial<Observed> => ({
  read: new Map([
    [`ses_${SESSION.replaceAll('-', '')}`, seqs.map((seq) => ({ seq, type: EVENT_TYPES[seq - 1] ?? '' }))],
  ]),
});

export const resumed: Partial<Observed> = {
  resumptions: [{ runId: `run_${RUN.replaceAll('-', '')}`, messageIds: [messageId(1)] }],
};

/** A cancel of the run during an answer of the model, which went on for `wentOnMs` after the cancel. */
export const cancelled = (answerNo: number, wentOnMs: number, run = RUN): Partial<Observed> => ({
  cancels: [{ runId: `run_${run.replaceAll('-', '')}`, spoken: [{ answer: answerNo, wentOnMs }] }],
});

/** A session with one round of compaction in `state`. `told`: the types of the round's events in the session's log. */
export function compacted(told: readonly string[], state: string): Observed {
  const log = events(['run:started', ...told, 'run:completed']);
  return observed({ events: log, compactions: [{ id: id(50), sessionId: SESSION, state }] }, read([]));
}

/** A webhook that was told of the run, and a schedule whose message began the run; with the changes of a test. */
export const told = (edges: Partial<Edges>): Observed =>
  observed(
    {},
    {
      edges: { manners: ['well'], receipts: [receipt(1)], deliveries: [delivery(1)], schedules: [SCHEDULE], ...edges },
    },
  );

export const receipt = (no: number, changes: Partial<Receipt> = {}): Receipt => ({
  path: 'well',
  id: `dlv_${no}`,
  body: 'a',
  status: 204,
  ...changes,
});

export const delivery = (no: number): StoredDelivery => ({
  id: `dlv_${no}`,
  path: 'well',
  runId: RUN,
  state: 'delivered',
  attempts: 2,
});

export const SCHEDULE: StoredSchedule = { id: 'schedule', content: 'Task message-0-1.', fires: 1, runs: 1 };

/** A call that waits for a person, and the person's answer. Null: no answer was given. */
export const asked = (
  answer: 'approve' | 'deny' | null,
  part: Part,
  ...effects: ReturnType<typeof effect>[]
): Observed => ({
  ...withCall(part, ...effects),
  asked: {
    tools: ['append'],
    answers: answer === null ? [] : [{ runId: `run_${RUN.replaceAll('-', '')}`, token: 'call-1', answer }],
  },
});
