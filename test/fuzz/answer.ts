import { requiredScope } from '../../src/domain/access.ts';
import type { Db } from '../../src/store/db/database.ts';
import { foreignIds, idsIn } from './owners.ts';
import type { FuzzRequest } from './request.ts';
import { type Player, WRITER_HEADER } from './service.ts';
import { judgeStream, type StreamKind, streamKindOf } from './streams.ts';

/** The service's answer to a request. Status null: no answer had begun in time, so the test hung up. */
export type Answer = Readonly<{
  status: number | null;
  contentType: string;
  text: string;
  /** For a stream: its protocol, and whether the service has ended it. */
  stream: Readonly<{ kind: StreamKind; isWhole: boolean }> | null;
  /** True: the answer names the session that has taken the request. A failure in it came after that. */
  isTaken: boolean;
}>;

/** The test hangs up if an answer has not begun after this time. */
const HUNG_UP_AFTER_MS = 1_000;
/** The test hangs up if a stream has sent nothing for this time. */
const QUIET_AFTER_MS = 300;
/** The test reads a stream for this time at most. */
const STREAM_READ_MS = 3_000;

/** Makes a request. It reads only the beginning of a stream that does not end. */
export async function ask(url: string, request: FuzzRequest, writer: string): Promise<Answer> {
  const { method, path, headers, body } = request;
  const hangUp = new AbortController();
  const timer = setTimeout(() => hangUp.abort(), HUNG_UP_AFTER_MS);
  const init = { method, signal: hangUp.signal, ...(body === undefined ? {} : { body }) };
  try {
    const response = await fetch(url + path, { ...init, headers: { ...headers, [WRITER_HEADER]: writer } });
    clearTimeout(timer);
    const contentType = response.headers.get('content-type') ?? '';
    const { status } = response;
    const isTaken = response.headers.has('x-session-id');
    if (!contentType.includes('event-stream') || method === 'HEAD') {
      return { status, contentType, text: await response.text(), stream: null, isTaken };
    }
    const { text, isWhole } = await readStream(response, hangUp);
    return { status, contentType, text, stream: { kind: streamKindOf(path), isWhole }, isTaken };
  } catch (error) {
    if (!hangUp.signal.aborted) throw error;
    return { status: null, contentType: '', text: '', stream: null, isTaken: false };
  } finally {
    clearTimeout(timer);
    hangUp.abort();
  }
}

async function readStream(response: Response, hangUp: AbortController): Promise<{ text: string; isWhole: boolean }> {
  const decoder = new TextDecoder();
  const endsAtMs = performance.now() + STREAM_READ_MS;
  let text = '';
  let quiet = setTimeout(() => hangUp.abort(), QUIET_AFTER_MS);
  try {
    for await (const bytes of response.body ?? []) {
      text += decoder.decode(bytes, { stream: true });
      if (performance.now() > endsAtMs) return { text, isWhole: false };
      clearTimeout(quiet);
      quiet = setTimeout(() => hangUp.abort(), QUIET_AFTER_MS);
    }
    return { text, isWhole: true };
  } catch (error) {
    if (!hangUp.signal.aborted) throw error;
    return { text, isWhole: false };
  } finally {
    clearTimeout(quiet);
  }
}

/** A request with its answer and its two tenants: the actor has sent it, and the other's data must not be in it. */
export type Exchange = Readonly<{
  request: FuzzRequest;
  /** The whole request as text. The answer may repeat any id that the actor named in it. */
  asked: string;
  answer: Answer;
  actor: Player;
  other: Player;
}>;

/** Whether the service has refused the request. A request that was taken and failed later is not refused. */
export const isRefused = ({ status, isTaken }: Answer): boolean => status !== null && status >= 400 && !isTaken;

/** Judges the answer to any request. @returns the faults of the answer, and the texts that it streamed */
export async function judgeExchange(db: Db, exchange: Exchange): Promise<Readonly<{ wrong: string[]; said: string }>> {
  const { request, answer, asked, actor, other } = exchange;
  const { stream, text } = answer;
  const streamed = stream === null ? { said: '', wrong: [] } : await judgeStream(stream.kind, text, stream.isWhole);
  const heard = `${text}\n${streamed.said}`;
  const leaks = isOfOperator(request) ? secretsOf(other, heard) : await leaksOf(db, { actor, other, asked }, heard);
  const wrong = [
    ...leaks.map((leak) => `tells of the other: ${leak}`),
    ...streamed.wrong.map((what) => `streams ${what}`),
    ...(answer.status === null ? [] : judgeStatus(exchange, answer.status)),
  ];
  return { wrong, said: streamed.said };
}

function judgeStatus({ request, answer }: Exchange, status: number): string[] {
  const { route, method, isOwn } = request;
  const undocumented = route !== null && !route.statuses.includes(status) ? ['is undocumented'] : [];
  // The methods of a path are the same for all that it may name, and for what does not exist.
  if (method === 'OPTIONS' && status === 204 && answer.text === '') return [];
  if (status < 400) return isOwn ? undocumented : [...undocumented, "is about the other's, or about nobody's"];
  // A chat page shows the body to people unless its request asks for JSON, so a refusal may be a sentence.
  const isSentence = request.path.startsWith('/api/chat') && answer.contentType.startsWith('text/plain');
  const code = (isSentence ? / \((\w+)\)$/ : /"code":\s*"(\w+)"/).exec(answer.text)?.[1];
  const isProblem = (isSentence || answer.contentType.includes('json')) && code !== undefined;
  return [
    ...undocumented,
    ...(status >= 500 && !isOfProvider(answer, code) ? ['failed'] : []),
    ...(isProblem || method === 'HEAD' ? [] : [`does not say what is wrong: ${answer.text.slice(0, 200)}`]),
  ];
}

/** Whether the simulated provider has failed, as it does at times. A client that waits for its answer is told so. */
const isOfProvider = ({ isTaken }: Answer, code: string | undefined): boolean =>
  isTaken && ['auth', 'transport', 'overloaded', 'timeout'].includes(code ?? '');

/** Parts of a text that belong to the other tenant: its secret, or the id of a thing that it owns. */
export async function leaksOf(
  db: Db,
  { actor, other, asked }: Pick<Exchange, 'actor' | 'other' | 'asked'>,
  text: string,
): Promise<readonly string[]> {
  // The id of a removed message is free again. After the other tenant has taken it, an answer may still name it to the
  // actor that knows it as its own.
  const unknown = idsIn(text).filter(({ id }) => !asked.includes(id) && !actor.known.has(id));
  const ids = await foreignIds(db, actor.name, unknown);
  return [...ids, ...secretsOf(other, text)];
}

const secretsOf = (other: Player, text: string): readonly string[] => (text.includes(other.word) ? [other.word] : []);

/** Whether the route is an operator's: its answers name the runs and sessions of all tenants, without content. */
const isOfOperator = ({ method, path }: FuzzRequest): boolean =>
  requiredScope(method, path.replace(/[?#].*$/s, '')) === 'operator';

/** Adds the ids in an answer to those of the actor, so that later requests may use them. */
export function remember({ request, answer, actor, other, asked }: Exchange): void {
  // The documents have examples of ids.
  const isDocument = !/^\/(v1|api)\//.test(request.path);
  if (isDocument || isOfOperator(request) || !request.isOwn || answer.status === null || answer.status >= 300) return;
  for (const { id, prefix } of idsIn(answer.text)) {
    const [own, foreign] = [actor.ids[prefix], other.ids[prefix]];
    if (asked.includes(id) && foreign?.includes(id)) foreign.splice(foreign.indexOf(id), 1);
    if (own !== undefined && !own.includes(id)) own.push(id);
    actor.known.add(id);
  }
  const [, removed] = /^\/v1\/sessions\/(ses_\w+)\?/.exec(request.method === 'DELETE' ? request.path : '') ?? [];
  const sessions = actor.ids['ses'] ?? [];
  if (removed !== undefined && sessions.includes(removed)) sessions.splice(sessions.indexOf(removed), 1);
}
