import { readFile } from 'node:fs/promises';
import { z } from 'zod';
import type { Reply, Script } from './reply.ts';
import type { SimulatedRequest } from './request.ts';
import { parseJson } from './wire.ts';

const headerSchema = z.looseObject({
  type: z.literal('transcript'),
  name: z.string(),
  model: z.string(),
  source: z.string().optional(),
  commit: z.string().optional(),
  licence: z.string().optional(),
  system: z.string().optional(),
  /** In tokens. */
  contextWindow: z.number().int().positive().optional(),
});

const userSchema = z.strictObject({ type: z.literal('user'), text: z.string() });

const tokenCount = z.number().int().min(0);

const stepSchema = z.strictObject({
  type: z.literal('step'),
  text: z.string(),
  reasoning: z.string().optional(),
  toolCalls: z.array(
    z.strictObject({
      id: z.string(),
      name: z.string(),
      input: z.record(z.string(), z.unknown()),
      output: z.string(),
      isError: z.boolean().optional(),
    }),
  ),
  usage: z
    .strictObject({ input: tokenCount, cacheRead: tokenCount, cacheWrite: tokenCount.optional(), output: tokenCount })
    .optional(),
  finishReason: z.enum(['stop', 'tool-calls', 'length', 'content-filter']),
});

type RecordingHeader = z.infer<typeof headerSchema>;
type RecordedUser = z.infer<typeof userSchema>;
/** One model call with all its tool calls and their results. */
export type RecordedStep = z.infer<typeof stepSchema>;

/** A recorded conversation: the header, then user messages and steps in their order. */
export type Recording = Readonly<{ header: RecordingHeader; entries: readonly (RecordedUser | RecordedStep)[] }>;

/** A recording could not be read. The message names the line and the problem. */
export class RecordingError extends Error {
  readonly code = 'recording_invalid';

  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'RecordingError';
  }
}

/** Text of the reply after the last recorded step. */
export const END_OF_RECORDING = 'END_OF_RECORDING';

/**
 * Reads a recording from a file of one JSON object a line.
 * @throws RecordingError if a line does not have the format; the system's error if the file cannot be read.
 */
export async function readRecording(path: string): Promise<Recording> {
  return parseRecording(await readFile(path, 'utf8'));
}

/**
 * Parses a recording: line 1 is the header, every other line a user message or a step.
 * @throws RecordingError if a line does not have the format.
 */
export function parseRecording(text: string): Recording {
  const lines = text.split('\n').filter((line) => line.trim() !== '');
  const [first, ...rest] = lines;
  if (first === undefined) throw new RecordingError('The recording is empty.');
  const entrySchema = z.discriminatedUnion('type', [userSchema, stepSchema]);
  return {
    header: parseLine(headerSchema, first, 1),
    entries: rest.map((line, index) => parseLine(entrySchema, line, index + 2)),
  };
}

function parseLine<T>(schema: z.ZodType<T>, line: string, lineNo: number): T {
  const json = parseJson(line);
  if (json === undefined) throw new RecordingError(`Line ${lineNo} of the recording is not JSON.`);
  const parsed = schema.safeParse(json.value);
  if (parsed.success) return parsed.data;
  throw new RecordingError(`Line ${lineNo} of the recording is invalid: ${z.prettifyError(parsed.error)}`, {
    cause: parsed.error,
  });
}

export function stepsOf(recording: Recording): RecordedStep[] {
  return recording.entries.filter((entry) => entry.type === 'step');
}

export type ReplayOptions = Readonly<{
  /** Name of the gate that holds the end of a step's reply, after the rest of it was streamed. Counts from 0. */
  gateFor?: ((stepIndex: number) => string | undefined) | undefined;
  /** Billed usage: as recorded (default) or as counted, which suits prompts other than the recorded ones. */
  usage?: 'recorded' | 'counted' | undefined;
  /**
   * Whether a step is answered again if the next request shows none of its calls: the client stopped the answer near
   * its end, after all of it was sent. For clients that send their history; default false.
   */
  repeatsStopped?: boolean | undefined;
}>;

/** Limit of repeats for a step whose calls the client never shows: it may have stopped the answer for good. */
const MAX_REPEATS = 3;

/**
 * A script that answers with the recorded steps, with one cursor per cache key; then every reply is `END_OF_RECORDING`.
 * The cursor ignores the history in the prompt and advances when a reply was delivered whole, so a refused or repeated
 * request gets the same step again.
 */
export function replayScript(recording: Recording, options: ReplayOptions = {}): Script {
  const steps = stepsOf(recording);
  const cursors = new Map<string, { next: number; repeats: number }>();
  return (request) => {
    const cursor = cursors.get(request.cacheKey) ?? { next: 0, repeats: 0 };
    const last = steps[cursor.next - 1];
    const mayRepeat = options.repeatsStopped === true && cursor.repeats < MAX_REPEATS;
    const isRepeat = mayRepeat && last !== undefined && !wasTaken(last, request);
    const index = isRepeat ? cursor.next - 1 : cursor.next;
    const step = steps[index];
    if (step === undefined) return { text: END_OF_RECORDING };
    const billed = options.usage === 'counted' ? { ...step, usage: undefined } : step;
    return {
      ...recordedReply(billed, options.gateFor?.(index)),
      onDelivered: () => {
        // Two deliveries of the same reply (a duplicate request) move the cursor once.
        if ((cursors.get(request.cacheKey) ?? { next: 0 }).next !== cursor.next) return;
        cursors.set(request.cacheKey, { next: index + 1, repeats: isRepeat ? cursor.repeats + 1 : 0 });
      },
    };
  };
}

/** Whether the request shows one of the step's calls. Clients may sanitize an id or append to it. */
export function wasTaken({ toolCalls }: RecordedStep, { messages }: SimulatedRequest): boolean {
  if (toolCalls.length === 0) return true;
  const ids = toolCalls.map(({ id }) => wireId(id));
  return messages.some((message) => message.toolCalls.some((call) => ids.some((id) => wireId(call.id).startsWith(id))));
}

const WIRE_ID_CHARS = 40;
const wireId = (id: string): string => id.replaceAll(/[^\w-]/g, '_').slice(0, WIRE_ID_CHARS);

function recordedReply(step: RecordedStep, gate: string | undefined): Reply {
  const { usage } = step;
  return {
    text: step.text,
    reasoning: step.reasoning,
    toolCalls: step.toolCalls.map(({ id, name, input }) => ({ id, name, input })),
    finishReason: step.finishReason,
    usage: usage && { input: usage.input, cacheRead: usage.cacheRead, output: usage.output },
    gates: gate === undefined ? undefined : { beforeEnd: gate },
  };
}
