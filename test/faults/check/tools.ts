import { isDelegation } from './children.ts';
import { type Loss, wentUnnoted } from './losses.ts';
import type { Effect, Snapshot } from './snapshot.ts';

export type ToolFindings = Readonly<{
  /** Calls that took effect more than once although they must not, or that were repeated under another key. */
  repeated: readonly string[];
  /** Calls without an outcome or with a wrong one, and effects that belong to no call in the transcript. */
  lost: readonly string[];
  /**
   * Calls that were reported to the model as of unknown outcome: the product promises this report when a worker dies in
   * the middle of a call.
   */
  unknown: readonly string[];
}>;

/** `peek` only looks, and people run `fill`. */
export const EFFECTLESS: readonly string[] = ['peek', 'fill'];

const OPEN = ['pending', 'running', 'awaiting_approval', 'unknown'];

/** Compares the outcome of every call in the transcript with the effects in the ledger. */
export function checkTools({ messages, effects }: Snapshot, losses: readonly Loss[] = []): ToolFindings {
  const happened = new Set(effects.map(({ token }) => token));
  // Where the commits around an effect are lost, the product cannot know of it.
  const byToken = Map.groupBy(
    effects.filter((effect) => !wentUnnoted(effect, losses)),
    ({ token }) => token,
  );
  const calls = messages
    .filter(({ superseded }) => !superseded)
    .flatMap(({ parts }) => parts.filter(({ content }) => content.type === 'tool' && !isDelegation(content)));
  const judged = calls.map((call) => ({ token: tokenOf(call), verdict: judgeCall(call, happened, byToken) }));
  const known = new Set(judged.map(({ token }) => token));
  const judgedAs = (wanted: Verdict): string[] =>
    judged.flatMap(({ token, verdict }) => (verdict === wanted ? [token] : []));
  return {
    repeated: [...byToken].flatMap(([token, all]) => (isRepeated(all) ? [token] : [])),
    lost: [...judgedAs('lost'), ...byToken.keys().filter((token) => !known.has(token))],
    unknown: judgedAs('unknown'),
  };
}

type Call = Snapshot['messages'][number]['parts'][number];
type Verdict = 'told' | 'lost' | 'unknown';

const tokenOf = ({ content }: Call): string => content.input?.token ?? '';

function judgeCall(call: Call, happened: ReadonlySet<string>, noted: ReadonlyMap<string, unknown>): Verdict {
  const { content, state } = call;
  const token = tokenOf(call);
  const value = String(content.output?.value ?? '');
  if (state === null || OPEN.includes(state)) return 'lost';
  if (state === 'completed') {
    const isTrue =
      isWhole(value, `done ${token}`) && (happened.has(token) || EFFECTLESS.includes(content.toolName ?? ''));
    return isTrue ? 'told' : 'lost';
  }
  if (/unknown/.test(value)) return 'unknown';
  // An error was reported although the effect happened: the model would call the tool again.
  return noted.has(token) ? 'lost' : 'told';
}

/** Whether the result is complete: a padded result has `done` at both ends. */
const isWhole = (value: string, done: string): boolean =>
  value === done || (value.startsWith(`${done} `) && value.endsWith(` ${done}`));

function isRepeated(effects: readonly Effect[]): boolean {
  if (effects.length < 2) return false;
  const [first] = effects;
  return first?.tool !== 'put' || effects.some(({ callKey }) => callKey !== first.callKey);
}
