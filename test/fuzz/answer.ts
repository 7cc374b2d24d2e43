import type { Tenant } from '../http/two-tenants.ts';
import type { FuzzRequest } from './request.ts';

/** What came back. Without a status the request was hung up on: nobody had answered it. */
export type Answer = Readonly<{
  status: number | null;
  contentType: string;
  text: string;
  /** It was hung up on, with no name for its session by which anybody could come back: the run ends a moment later. */
  isLeft: boolean;
  /** It asked for an answer and was hung up on: what it was being told is nobody's a moment later. */
  isHungUp: boolean;
}>;

/** What is open for longer than this is a stream, or an answer that nobody here will ever give. */
const HUNG_UP_AFTER_MS = 1_000;

/** Makes a request. Of a stream only the beginning is waited for. */
export async function ask(url: string, { method, path, headers, body }: FuzzRequest): Promise<Answer> {
  const isCompletion = path.startsWith('/v1/chat/completions');
  const isNameless = isCompletion && headers['x-session-id'] === undefined;
  const hangUp = new AbortController();
  const timer = setTimeout(() => hangUp.abort(), HUNG_UP_AFTER_MS);
  const init = { method, headers, signal: hangUp.signal, ...(body === undefined ? {} : { body }) };
  try {
    const response = await fetch(url + path, init);
    const contentType = response.headers.get('content-type') ?? '';
    const isStream = contentType.includes('event-stream');
    return {
      status: response.status,
      contentType,
      text: isStream ? '' : await response.text(),
      isLeft: isStream && isNameless,
      isHungUp: isStream && isCompletion,
    };
  } catch (error) {
    if (!hangUp.signal.aborted) throw error;
    return { status: null, contentType: '', text: '', isLeft: isNameless, isHungUp: isCompletion };
  } finally {
    clearTimeout(timer);
    hangUp.abort();
  }
}

/** All that is known once a request is over. `before` and `after` are fingerprints of what each tenant has stored. */
export type Exchange = Readonly<{
  request: FuzzRequest;
  /** Everything that the actor said: what it named itself it may be told. */
  asked: string;
  answer: Answer;
  actor: Tenant;
  other: Tenant;
  before: ReadonlyMap<string, string>;
  after: ReadonlyMap<string, string>;
}>;

/** What is wrong with an answer, whatever was asked. */
export function judgeExchange(exchange: Exchange): string[] {
  const { answer, asked, other, before, after } = exchange;
  const leaks = leaksOf(other, answer.text, asked);
  return [
    ...(after.get(other.name) === before.get(other.name) ? [] : ["changed the other's rows"]),
    ...(leaks.length === 0 ? [] : [`tells of the other: ${leaks}`]),
    ...(answer.status === null ? [] : judgeStatus(exchange, answer.status)),
  ];
}

function judgeStatus({ request, answer, actor, before, after }: Exchange, status: number): string[] {
  const { route, method, isOwn } = request;
  const undocumented = route !== null && !route.statuses.includes(status) ? ['is undocumented'] : [];
  if (status < 400) return isOwn ? undocumented : [...undocumented, "is about the other's, or about nobody's"];
  const isProblem = answer.contentType.includes('json') && /"code":\s*"\w+"/.test(answer.text);
  return [
    ...undocumented,
    ...(status < 500 ? [] : ['failed']),
    ...(after.get(actor.name) === before.get(actor.name) ? [] : ['was refused, and something is stored']),
    ...(isProblem || method === 'HEAD' ? [] : [`does not say what is wrong: ${answer.text.slice(0, 200)}`]),
  ];
}

const ID = /\b(ses|run|msg|call|blob|key)_[0-9a-f]{32}(?:_\d+)?/g;

function leaksOf(other: Tenant, text: string, asked: string): string[] {
  const known = new Set(Object.values(other.ids).flat());
  const ids = [...text.matchAll(ID)].map(([id]) => id).filter((id) => known.has(id) && !asked.includes(id));
  return text.includes(other.word) ? [...ids, other.word] : ids;
}

/** What the actor has from now on: it may be asked for again, and the other must not hear of it. */
export function remember({ request, answer, actor, other, asked }: Exchange): void {
  // The documents have examples of ids.
  const isDocument = !/^\/(v1|api)\//.test(request.path);
  if (isDocument || !request.isOwn || answer.status === null || answer.status >= 300) return;
  for (const [id, prefix = ''] of answer.text.matchAll(ID)) {
    const [own, foreign] = [actor.ids[prefix], other.ids[prefix]];
    // The id of a message that was removed is free again. Who takes it has it: there is one row of each id at most.
    if (asked.includes(id) && foreign?.includes(id)) foreign.splice(foreign.indexOf(id), 1);
    if (own !== undefined && !own.includes(id)) own.push(id);
  }
}
