import type { Reply } from '../../../simulator/reply.ts';
import type { SimulatedRequest } from '../../../simulator/request.ts';
import { createRandom } from '../../support/random.ts';
import { HELPER } from './agent.ts';

/** The behaviour of the simulated model. */
export type ModelManners = Readonly<{
  /** Rounds of tool calls before the answer, at most. */
  maxRounds: number;
  /** Calls of one round, at most. */
  maxCalls: number;
  /** Longest time that a tool works before its effect, and after it. */
  toolMs: number;
  /** Pause before each piece of an answer, in milliseconds. */
  chunkDelayMs: number;
  /** Pieces of an answer, at most. */
  maxChunks: number;
  /** Tools that it calls, each as often as its share. `DELEGATE`: the agent below, or `peek` if there is none. */
  tools: readonly string[];
  /** Replaces the rest: number of tasks that each level gives at once. The agents of the last level answer long. */
  widths?: readonly number[];
}>;

/** Part of the last message in a request for the final answer of a run. */
export const NOTICE = 'The work ends here: ';

export const TOOLS: readonly string[] = ['append', 'append', 'put', 'peek'];
/** Gives a task to another agent. */
export const DELEGATE = 'delegate';
/** Part of every final answer, and of no other answer. */
export const FINAL = 'In the end: ';
const CHUNK = 'sixteen letters ';

/** Length of an answer that a cancel is about to break off. */
const LONG_ANSWER_MS = 6_000;

/** Within this time all agents of a wide tree are at work, even on a busy machine. */
const WIDE_ANSWER_MS = 60_000;

/** Numbers of the answers, by the requests that were answered. */
const answerNumbers = new WeakMap<SimulatedRequest, number>();

/** The number of the answer that the model gave to a request; undefined where it gave none. */
export const answerTo = (request: SimulatedRequest | undefined): number | undefined =>
  request === undefined ? undefined : answerNumbers.get(request);

/**
 * A model that works in rounds of tool calls until it answers; a request for a final answer gets one at once. Every
 * answer has its own number at both ends and every call its own token, so the outcome of each can be checked later.
 * @param heard `onRequest` is called when a request arrives, with the session and a function that makes the answer
 *   long; `onLastWord` is called when the last piece of an answer without calls leaves
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
