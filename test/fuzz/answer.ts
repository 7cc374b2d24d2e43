import { requiredScope } from '../../src/domain/access.ts';
import type { Db } from '../../src/store/database.ts';
import { foreignIds, idsIn } from './owners.ts';
import type { FuzzRequest } from './request.ts';
import { type Player, WRITER_HEADER } from './service.ts';
import { judgeStream, type StreamKind, streamKindOf } from './streams.ts';

/** What came back. Without a status the request was hung up on: nobody had answered it. */
export type Answer = Readonly<{
  status: number | null;
  contentType: string;
  text: string;
  /** Of a stream: in which protocol, and whether the service has ended it. */
  stream: Readonly<{ kind: StreamKind; isWhole: boolean }> | null;
  /** It names the session that has taken the request: what is wrong with it came afterwards. */
  isTaken: boolean;
}>;

/** Nobody here waits longer for an answer to begin, */
const HUNG_UP_AFTER_MS = 1_000;
/** for a stream to go on, */
const QUIET_AFTER_MS = 300;
/** or for its end. */
const STREAM_READ_MS = 3_000;

/** Makes a request. Of a stream that goes on and on only the beginning is read. */
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

/** All that is known once a request was answered, or hung up on. */
export type Exchange = Readonly<{
  request: FuzzRequest;
  /** Everything that the actor said: what it named itself it may be told. */
  asked: string;
  answer: Answer;
  actor: Player;
  other: Player;
}>;

/** Refused is what says so; what was taken and failed later is not. */
export const isRefused = ({ status, isTaken }: Answer): boolean => status !== null && status >= 400 && !isTaken;

/** What is wrong with an answer, whatever was asked, and the texts that it streamed. */
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
  if (status < 400) return isOwn ? undocumented : [...undocumented, "is about the other's, or about nobody's"];
  // A chat page shows the body to people, where it does not ask for JSON.
  const isSentence = request.path.startsWith('/api/chat') && answer.contentType.startsWith('text/plain');
  const code = (isSentence ? / \((\w+)\)$/ : /"code":\s*"(\w+)"/).exec(answer.text)?.[1];
  const isProblem = (isSentence || answer.contentType.includes('json')) && code !== undefined;
  return [
    ...undocumented,
    ...(status >= 500 && !isOfProvider(answer, code) ? ['failed'] : []),
    ...(isProblem || method === 'HEAD' ? [] : [`does not say what is wrong: ${answer.text.slice(0, 200)}`]),
  ];
}

/** The simulated provider fails at times, and whoever waits for its answer is told so. */
const isOfProvider = ({ isTaken }: Answer, code: string | undefined): boolean =>
  isTaken && ['auth', 'transport', 'overloaded', 'timeout'].includes(code ?? '');

/** What a text says that is the other's: its secret, or the id of anything that it has. */
export async function leaksOf(
  db: Db,
  { actor, other, asked }: Pick<Exchange, 'actor' | 'other' | 'asked'>,
  text: string,
): Promise<readonly string[]> {
  // The id of a message that was removed is free again: who takes it has it, and whoever had it may remember.
  const unknown = idsIn(text).filter(({ id }) => !asked.includes(id) && !actor.known.has(id));
  const ids = await foreignIds(db, actor.name, unknown);
  return [...ids, ...secretsOf(other, text)];
}

const secretsOf = (other: Player, text: string): readonly string[] => (text.includes(other.word) ? [other.word] : []);

/** Its answers name the runs and sessions of all tenants, without content. */
const isOfOperator = ({ method, path }: FuzzRequest): boolean =>
  requiredScope(method, path.replace(/[?#].*$/s, '')) === 'operator';

/** What the actor has from now on: it may be asked for again. */
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
