import type { Reply } from '../../../simulator/reply.ts';
import type { SimulatedRequest } from '../../../simulator/request.ts';
import { createRandom } from '../../support/random.ts';
import { HELPER } from './agent.ts';

/** How the simulated model behaves. */
export type ModelManners = Readonly<{
  /** Rounds of tool calls before the answer, at most. */
  maxRounds: number;
  /** Calls of one round, at most. */
  maxCalls: number;
  /** How long a tool works, at most. */
  toolMs: number;
  /** Pause before each piece of an answer, in milliseconds. */
  chunkDelayMs: number;
  /** Pieces of an answer, at most. */
  maxChunks: number;
  /** What it calls: each name as often as its share. `DELEGATE`: the agent below, or nothing with an effect. */
  tools: readonly string[];
  /** Instead of all that: how many agents each level gives tasks to, at once. The last ones answer for long. */
  widths?: readonly number[];
}>;

/** In a request for the final answer of a run, as its last words. */
export const NOTICE = 'The work ends here: ';

export const TOOLS: readonly string[] = ['append', 'append', 'put', 'peek'];
/** Gives a task to another agent. */
export const DELEGATE = 'delegate';
/** In a final answer, and in no other. */
export const FINAL = 'In the end: ';
const CHUNK = 'sixteen letters ';

/** How long an answer goes on that somebody is about to break off. */
const LONG_ANSWER_MS = 6_000;

/** Until all of a wide tree are at work, on a busy machine. */
const WIDE_ANSWER_MS = 60_000;

/** By the requests that were answered. */
const answerNumbers = new WeakMap<SimulatedRequest, number>();

/** The number of the answer that the model gave to a request; undefined where it gave none. */
export const answerTo = (request: SimulatedRequest | undefined): number | undefined =>
  request === undefined ? undefined : answerNumbers.get(request);

/**
 * A model that works in rounds of tool calls until it answers. Every answer has a number of its own and says
 * so at both ends, every call has a token of its own: what came of each can be told afterwards. Told that
 * the work ends, it says so.
 * @param heard told of a request as it arrives, with what makes its answer go on for long, and
 * when the last piece of an
 *   answer without calls leaves, by session
 */
export function createModelScript(
  seed: string,
  manners: ModelManners,
  heard: Readonly<{ onRequest: (cacheKey: string, goOn: () => void) => void; onLastWord: (cacheKey: string) => void }>,
): (request: SimulatedRequest) => Reply {
  let answers = 0;
  let calls = 0;
  return (request) => {
    let isLong = false;
    heard.onRequest(request.cacheKey, () => {
      isLong = true;
    });
    const no = ++answers;
    answerNumbers.set(request, no);
    const lastUser = request.messages.findLastIndex((message) => message.role === 'user');
    const rounds = request.messages.slice(lastUser + 1).filter(({ role }) => role === 'assistant').length;
    const task = createRandom(`${seed}/${request.messages[lastUser]?.text ?? ''}`);
    const wanted = task.between(1, manners.maxRounds);
    const random = createRandom(`${seed}/answer ${no}`);
    const isFinal = request.messages.at(-1)?.text.includes(NOTICE) === true;
    const chunks = manners.widths === undefined ? random.between(1, manners.maxChunks) : 1;
    const helper = request.tools.find(({ name }) => name.startsWith(HELPER))?.name;
    const width = helper === undefined ? 0 : (manners.widths?.[Number(helper.slice(HELPER.length)) - 1] ?? 0);
    const isLeaf = manners.widths !== undefined && helper === undefined;
    const said = `${isFinal ? FINAL : ''}${CHUNK.repeat(isLong || isLeaf ? longChunks(manners) : chunks)}`;
    const text = `<answer ${no}> ${said}</answer ${no}>`;
    const pace = { chunkChars: CHUNK.length, chunkDelayMs: manners.chunkDelayMs };
    if (manners.widths !== undefined) {
      const tasks = Array.from({ length: rounds === 0 ? width : 0 }, () => ({ task: `Look into call-${++calls}.` }));
      return { text, toolCalls: tasks.map((input) => ({ name: helper ?? '', input })), ...pace };
    }
    if (isFinal || rounds >= wanted) return { text, ...pace, onDelivered: () => heard.onLastWord(request.cacheKey) };
    const toolCalls = Array.from({ length: random.between(1, manners.maxCalls) }, () => {
      const picked = random.pick(manners.tools);
      const token = `call-${++calls}`;
      if (picked === DELEGATE && helper !== undefined) return { name: helper, input: { task: `Look into ${token}.` } };
      const [beforeMs, afterMs] = [random.between(0, manners.toolMs), random.between(0, manners.toolMs)];
      return { name: picked === DELEGATE ? 'peek' : picked, input: { token, beforeMs, afterMs } };
    });
    return { text, toolCalls, ...pace };
  };
}

const longChunks = ({ chunkDelayMs, widths }: ModelManners): number =>
  Math.ceil((widths === undefined ? LONG_ANSWER_MS : WIDE_ANSWER_MS) / Math.max(1, chunkDelayMs));
