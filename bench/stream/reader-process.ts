// Readers of a session's event stream, all in this process, and the client that sends the message.
import { Agent, get, type IncomingMessage } from 'node:http';
import { z } from 'zod';
import { machineNowMs } from '../clock.ts';
import { answerParent } from '../process/asked.ts';

/** Opens this many readers of a session, sends it a message, and reads until the run has ended. */
export type ReadersQuestion = Readonly<{
  url: string;
  /** The id in the API. */
  sessionId: string;
  content: string;
  readers: number;
  /** Length of the text that each reader must receive. */
  chars: number;
}>;

/** Milliseconds of the machine's clock, one value per reader. */
export type ReadersAnswer = Readonly<{
  postedAtMs: number;
  firstDeltaAtMs: readonly number[];
  lastDeltaAtMs: readonly number[];
}>;

type Reader = { chars: number; firstDeltaAtMs: number; lastDeltaAtMs: number };

const agent = new Agent({ keepAlive: false });

answerParent(async ({ url, sessionId, content, readers, chars }: ReadersQuestion): Promise<ReadersAnswer> => {
  const events = `${url}/v1/sessions/${sessionId}/events`;
  const opened = await Promise.all(Array.from({ length: readers }, () => openReader(events)));
  const postedAtMs = machineNowMs();
  const response = await fetch(`${url}/v1/sessions/${sessionId}/messages`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ content }),
  });
  if (response.status !== 202) throw new Error(`the message was answered ${response.status}`);
  const done = await Promise.all(opened.map(({ ended }) => ended));
  for (const { chars: got } of done) if (got !== chars) throw new Error(`a reader got ${got} of ${chars} characters`);
  return {
    postedAtMs,
    firstDeltaAtMs: done.map(({ firstDeltaAtMs }) => firstDeltaAtMs),
    lastDeltaAtMs: done.map(({ lastDeltaAtMs }) => lastDeltaAtMs),
  };
});

/** Resolves with the first frame, the snapshot: from then on the reader misses no event. */
async function openReader(url: string): Promise<{ ended: Promise<Reader> }> {
  const response = await new Promise<IncomingMessage>((resolve, reject) => {
    get(url, { agent, headers: { accept: 'text/event-stream' } }, resolve).on('error', reject);
  });
  if (response.statusCode !== 200) throw new Error(`the event stream was answered ${response.statusCode}`);
  const joined = Promise.withResolvers<void>();
  const ended = Promise.withResolvers<Reader>();
  const reader: Reader = { chars: 0, firstDeltaAtMs: Number.NaN, lastDeltaAtMs: Number.NaN };
  let buffered = '';
  // The stream is ASCII, and latin1 is the cheapest to decode.
  response.setEncoding('latin1').on('data', (text: string) => {
    buffered += text;
    let from = 0;
    for (let end = buffered.indexOf('\n\n'); end >= 0; end = buffered.indexOf('\n\n', from)) {
      const frame = buffered.slice(from, end);
      from = end + 2;
      joined.resolve();
      if (frame.startsWith(DELTA_FRAME)) take(reader, frame);
      else if (frame.includes(END_FRAME)) {
        ended.resolve(reader);
        response.destroy();
      }
    }
    buffered = buffered.slice(from);
  });
  const gone = (): void => ended.reject(new Error('the event stream has ended before the run'));
  response.on('error', gone).on('close', gone);
  ended.promise.catch(() => undefined);
  await Promise.race([joined.promise, ended.promise]);
  return { ended: ended.promise };
}

const DELTA_FRAME = 'event: llm:chunk\n';
const END_FRAME = 'event: run:completed\n';

const deltaSchema = z.object({ data: z.object({ content: z.string() }) });

function take(reader: Reader, frame: string): void {
  const json = frame.slice(frame.indexOf('data: ') + 'data: '.length);
  reader.chars += deltaSchema.parse(JSON.parse(json)).data.content.length;
  reader.lastDeltaAtMs = machineNowMs();
  if (Number.isNaN(reader.firstDeltaAtMs)) reader.firstDeltaAtMs = reader.lastDeltaAtMs;
}
