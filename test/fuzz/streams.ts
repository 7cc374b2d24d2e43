import { asSchema, uiMessageChunkSchema } from 'ai';
import { z } from 'zod';
import { EVENT_SCHEMAS, LIVE_SCHEMAS } from '../../src/domain/run/events.ts';
import { sessionSnapshotSchema } from '../../src/domain/run/session-snapshot.ts';

/** The protocols in which the service streams. */
export type StreamKind = 'session events' | 'activity' | 'completion' | 'response' | 'UI messages';

export function streamKindOf(path: string): StreamKind {
  if (path.startsWith('/v1/chat/completions')) return 'completion';
  if (path.startsWith('/v1/responses')) return 'response';
  if (path.startsWith('/v1/activity')) return 'activity';
  return path.startsWith('/api/chat') ? 'UI messages' : 'session events';
}

/** The texts and the faults of a stream. */
export type StreamVerdict = Readonly<{
  /** The streamed texts, each joined from its frames: a word may be split, so that no frame has all of it. */
  said: string;
  wrong: readonly string[];
}>;

type Frame = Readonly<{ id?: string; event?: string; data?: string }>;
type Reader = Readonly<{
  /** @returns the faults of the frame */
  take: (frame: Frame) => readonly string[] | Promise<readonly string[]>;
  /** Whether the service may end the stream here. */
  mayEnd: () => boolean;
  texts: () => Iterable<string>;
}>;

/**
 * Reads a stream as strictly as the strictest client.
 * @param isWhole true: the service has ended it; false: the test hung up, so the text may end in the middle of a frame
 */
export async function judgeStream(kind: StreamKind, text: string, isWhole: boolean): Promise<StreamVerdict> {
  const reader = READERS[kind]();
  const pieces = text.split('\n\n');
  const rest = pieces.pop() ?? '';
  const wrong = isWhole && rest !== '' ? [`ends within a frame: ${rest.slice(0, 100)}`] : [];
  for (const piece of pieces) {
    const frame = readFrame(piece);
    if (frame === null) wrong.push(`has no frame of server-sent events: ${piece.slice(0, 200)}`);
    else wrong.push(...(await reader.take(frame)).map((what) => `${what}: ${piece.slice(0, 300)}`));
  }
  if (isWhole && !reader.mayEnd()) wrong.push(`ends before its end: ${(pieces.at(-1) ?? '').slice(0, 300)}`);
  return { said: [...reader.texts()].join('\n'), wrong };
}

/** Reads a frame, which has each of its fields at most once; a comment has none. Null: the text is no frame. */
function readFrame(piece: string): Frame | null {
  const frame: { id?: string; event?: string; data?: string } = {};
  for (const line of piece.split('\n')) {
    const [, name, value] = /^(id|event|data): (.*)$/.exec(line) ?? [];
    if (name === undefined && !/^: ./.test(line)) return null;
    if (name !== 'id' && name !== 'event' && name !== 'data') continue;
    if (frame[name] !== undefined || value === undefined) return null;
    frame[name] = value;
  }
  return frame;
}

const isComment = ({ id, event, data }: Frame): boolean => [id, event, data].every((field) => field === undefined);

function parse(data: string | undefined): unknown {
  try {
    return JSON.parse(data ?? '');
  } catch {
    return undefined;
  }
}

const envelopeSchema = z.strictObject({
  type: z.string(),
  seq: z.int().positive().optional(),
  runId: z.string().optional(),
  createdAt: z.iso.datetime().optional(),
  data: z.unknown(),
});
const OWN_SCHEMAS: Readonly<Record<string, z.ZodType>> = {
  'session:snapshot': sessionSnapshotSchema,
  heartbeat: z.strictObject({ seq: z.int() }),
  ...LIVE_SCHEMAS,
};
const DURABLE_SCHEMAS: Readonly<Record<string, z.ZodType>> = EVENT_SCHEMAS;

/** `session:snapshot` first, durable events numbered without a gap, previews and heartbeats without a number. */
function readSessionEvents(): Reader {
  const texts = new Map<string, string>();
  let lastSeq: number | null = null;
  let isFirst = true;
  const judgeNumber = (id: string | undefined, seq: number | undefined): string[] => {
    const before = lastSeq;
    lastSeq = seq ?? before;
    if (seq === undefined || id !== String(seq)) return ['a durable event has another id than its number'];
    return before !== null && seq !== before + 1 ? [`a gap after event ${before}`] : [];
  };
  return {
    take({ id, event, data }) {
      const envelope = envelopeSchema.safeParse(parse(data));
      if (!envelope.success) return ['no envelope of an event'];
      const { type, seq, data: content } = envelope.data;
      const wrong = event === type ? [] : ['an event under another name'];
      if (isFirst !== (type === 'session:snapshot')) wrong.push('a snapshot that is not the beginning');
      isFirst = false;
      const durable = DURABLE_SCHEMAS[type];
      if (durable !== undefined) wrong.push(...judgeNumber(id, seq));
      else if (id !== undefined) wrong.push('a preview that moves the cursor');
      const schema = durable ?? OWN_SCHEMAS[type];
      if (schema?.safeParse(content).success !== true) wrong.push('an event with other data than its schema has');
      const chunk = LIVE_SCHEMAS['llm:chunk'].safeParse(content);
      // The text that was streamed before the reader joined counts as well.
      const joined = sessionSnapshotSchema.safeParse(content);
      const { inFlight = null } = joined.data ?? {};
      if (inFlight !== null) texts.set(inFlight.messageId, inFlight.chunks.map((each) => each.content).join(''));
      if (chunk.success) texts.set(chunk.data.messageId, (texts.get(chunk.data.messageId) ?? '') + chunk.data.content);
      return wrong;
    },
    mayEnd: () => true,
    texts: () => texts.values(),
  };
}

const chunkSchema = z.strictObject({
  id: z.string().regex(/^chatcmpl-/),
  object: z.literal('chat.completion.chunk'),
  created: z.int(),
  model: z.string(),
  choices: z
    .array(
      z.strictObject({
        index: z.literal(0),
        delta: z.strictObject({
          role: z.literal('assistant').optional(),
          content: z.string().nullish(),
          refusal: z.null().optional(),
          tool_calls: z
            .array(
              z.strictObject({
                index: z.int(),
                id: z.string().regex(/^call_/),
                type: z.literal('function'),
                function: z.strictObject({ name: z.string(), arguments: z.string() }),
              }),
            )
            .optional(),
        }),
        logprobs: z.null(),
        finish_reason: z.enum(['stop', 'length', 'tool_calls', 'content_filter']).nullable(),
      }),
    )
    .max(1),
  usage: z.looseObject({ total_tokens: z.int() }).nullish(),
  baton: z
    .strictObject({
      status: z.literal('requires_action'),
      message: z.string(),
      calls: z.array(z.looseObject({})).min(1),
    })
    .optional(),
});
const failureSchema = z.strictObject({ error: z.looseObject({ message: z.string(), code: z.string() }) });

/** Chunks of one completion that begins with its role; `[DONE]` or an error last. */
function readCompletion(): Reader {
  let text = '';
  let id: string | null = null;
  let isOver = false;
  const takeChunk = (chunk: z.infer<typeof chunkSchema> | undefined): string[] => {
    if (chunk === undefined) return ['no chunk of a completion'];
    const before = id;
    id = chunk.id;
    const [choice] = chunk.choices;
    text += choice?.delta.content ?? '';
    if ((before === null) !== (choice?.delta.role !== undefined)) return ['a role that is not at the beginning'];
    return before === null || before === id ? [] : ['a chunk of another completion'];
  };
  return {
    take(frame) {
      if (isComment(frame)) return [];
      if (isOver) return ['something after the end'];
      if (frame.event !== undefined || frame.id !== undefined) return ['more than data'];
      isOver = frame.data === '[DONE]' || failureSchema.safeParse(parse(frame.data)).success;
      if (isOver) return id === null ? ['an end without a beginning'] : [];
      return takeChunk(chunkSchema.safeParse(parse(frame.data)).data);
    },
    mayEnd: () => isOver,
    texts: () => [text],
  };
}

const responseEventSchema = z.looseObject({
  type: z.string(),
  sequence_number: z.int().nonnegative(),
  delta: z.string().optional(),
  response: z.looseObject({ id: z.string().regex(/^resp_/), object: z.literal('response') }).optional(),
});
const LAST_OF_RESPONSE = /^(error|response\.(completed|incomplete|failed))$/;

/** OpenAI's events, named by their type and numbered upwards. */
function readResponse(): Reader {
  let text = '';
  let last = -1;
  let isOver = false;
  return {
    take(frame) {
      if (isComment(frame)) return [];
      if (isOver) return ['something after the end'];
      const event = responseEventSchema.safeParse(parse(frame.data)).data;
      if (event === undefined || event.type !== frame.event) return ['no event of a response'];
      isOver = LAST_OF_RESPONSE.test(event.type);
      if (event.type === 'response.output_text.delta') text += event.delta ?? '';
      const before = last;
      last = event.sequence_number;
      return event.type === 'error' || last > before ? [] : ['a number that does not grow'];
    },
    mayEnd: () => isOver,
    texts: () => [text],
  };
}

/** Chunks of the AI SDK: a text begins before it grows, and `[DONE]` comes last. */
function readUiMessages(): Reader {
  const schema = asSchema(uiMessageChunkSchema);
  const texts = new Map<string, string>();
  let isOver = false;
  return {
    async take(frame) {
      if (isComment(frame)) return [];
      if (isOver) return ['something after the end'];
      if (frame.event !== undefined || frame.id !== undefined) return ['more than data'];
      isOver = frame.data === '[DONE]';
      if (isOver) return [];
      const chunk = await schema.validate?.(parse(frame.data));
      if (chunk?.success !== true) return ['no chunk of UI messages'];
      const { value } = chunk;
      if (value.type === 'text-start' || value.type === 'reasoning-start') texts.set(value.id, '');
      if (value.type !== 'text-delta' && value.type !== 'reasoning-delta') return [];
      const before = texts.get(value.id);
      texts.set(value.id, (before ?? '') + value.delta);
      return before === undefined ? ['a text that grows before it has begun'] : [];
    },
    mayEnd: () => isOver,
    texts: () => texts.values(),
  };
}

const changeSchema = z.strictObject({
  sessions: z.array(z.string().regex(/^ses_[0-9a-f]{32}$/)),
  runs: z.array(z.string().regex(/^run_[0-9a-f]{32}$/)),
});

function readActivity(): Reader {
  return {
    take({ event, data = '' }) {
      if (event === 'overflow' || event === 'heartbeat') return data === '{}' ? [] : ['says more than its name'];
      if (event !== 'activity') return ['has an unknown event'];
      return changeSchema.safeParse(JSON.parse(data)).success ? [] : ['has a change without its form'];
    },
    mayEnd: () => false,
    texts: () => [],
  };
}

const READERS: Readonly<Record<StreamKind, () => Reader>> = {
  'session events': readSessionEvents,
  activity: readActivity,
  completion: readCompletion,
  response: readResponse,
  'UI messages': readUiMessages,
};
